"""Starts the executions of a product, waits for them, and cancels them.

An execution runs in a task of its own. Live executions are objects of the service; those that are settled come from the
journal. Nothing that a program does is raised from here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from codemode_server.calls.events import CallApprovalRequested, CallApprovalSettled, CallEnded, CallEvent
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.targets import title_of
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.approvals import ProgramTexts
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import JournalUnavailable, MetaToolError, SandboxUnavailable
from codemode_server.domain.executions import ExecutionStatus, Repeat
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.input_requests import NO_HOST_INPUT, HostInput
from codemode_server.domain.principals import Principal
from codemode_server.executions.artifacts import ArtifactStore, NotStored
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.execution import DirectCall, Execution, limits_of, new_id
from codemode_server.executions.host_waiting import (
    Suspensions,
    WaitEnd,
    give_up,
    host_returns,
    is_suspendable,
    wait_with_host,
)
from codemode_server.executions.runner import ExecutionRunner
from codemode_server.support.background_tasks import OwnsTasks

if TYPE_CHECKING:
    from codemode_server.storage.journal import Journal

logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 5.0
"""How long `cancel` waits for the end of a program."""
_MOVE_SECONDS = 0.2
"""How soon a program gives up its sandbox that may go on elsewhere, once its host has been told that it waits."""
_LOOK_SECONDS = 1.0
"""How often requests of other processes to cancel a program are looked for while it runs."""


@dataclass(kw_only=True)
class ExecutionService(OwnsTasks):
    """Runs `limits.programs` at once; use as an async context manager, which ends those still running."""

    runner: ExecutionRunner
    artifacts: ArtifactStore
    config: LiveConfig
    journal: Journal
    has_dry_runs: bool = True
    is_draining: bool = False
    """True from `drain` on."""
    _live: dict[ExecutionId, Execution] = field(default_factory=dict)
    _parked: dict[ExecutionId, Execution] = field(default_factory=dict)
    """Those whose hosts come back, also if they end before."""

    def __post_init__(self) -> None:
        self._suspensions = Suspensions(self._suspended_seconds)

    def start(
        self,
        code: str,
        context: Caller,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
        is_dry_run: bool = False,
        description: str = "",
    ) -> Execution:
        """Start a program and return at once. `timeout_s` takes the place of `limits.wall_seconds`; `host` answers what
        upstreams ask. In a dry run, calls that may change something are not sent. `description` is what the model says
        about the program. Raises `MetaToolError`: dry runs are not part of this product."""
        if is_dry_run and not self.has_dry_runs:
            raise MetaToolError("this codemode-server makes no dry runs")
        calls = ExecutionCalls(new_id(), context, host=host, captured=set() if is_dry_run else None)
        return self.launch(self.execution(code, calls, timeout_s=timeout_s, description=description))

    def start_call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, JsonValue],
        context: Caller,
        host: HostInput = NO_HOST_INPUT,
        *,
        is_prompt: bool = False,
    ) -> Execution:
        """Start one call of a tool, or get one prompt, by its raw names, without a program or a sandbox, and return at
        once."""
        calls = ExecutionCalls(new_id(), context, host=host)
        return self.launch(self.execution("", calls, DirectCall(server, tool, arguments, is_prompt)))

    def execution(
        self,
        code: str,
        calls: ExecutionCalls,
        call: DirectCall | None = None,
        *,
        timeout_s: float | None = None,
        repeat: Repeat | None = None,
        description: str = "",
    ) -> Execution:
        """An execution that `launch` starts; `repeat` is that of a program that ran before."""
        limits, results = limits_of(self.config.settings.limits, timeout_s), CallResults(self.artifacts)
        repeat = repeat or Repeat.new()
        return Execution(calls.execution_id, code, calls.caller, limits, calls, results, call, description, repeat)

    def check_open(self) -> None:
        """Raises `SandboxUnavailable` if no program is started any more."""
        if self._tasks is None or self.is_draining:
            raise SandboxUnavailable(
                "codemode-server is shutting down, and nothing of this ran; call again in a moment"
            )

    def launch(self, execution: Execution) -> Execution:
        self.check_open()
        assert self._tasks is not None  # noqa: S101 - it is open
        self._live[execution.execution_id] = execution
        self._tasks.start_soon(self.runner.run, execution, name=execution.execution_id)
        self._tasks.start_soon(self._follow, execution)
        return execution

    async def _follow(self, execution: Execution) -> None:
        """Cancel an execution once another process asks for it, as the pages do; it is live until it is done."""
        try:
            while not execution.done.is_set():
                with anyio.move_on_after(_LOOK_SECONDS):
                    await execution.done.wait()
                try:
                    if not execution.done.is_set() and await self.journal.is_to_be_cancelled(execution.execution_id):
                        execution.scope.cancel()
                except JournalUnavailable:  # what the program does next will say so
                    pass
                except Exception:  # an internal error here would end all programs
                    logger.exception("requests to cancel execution %s can't be read", execution.execution_id)
        finally:
            self._live.pop(execution.execution_id, None)

    def live(self, execution_id: ExecutionId, principal: Principal) -> Execution | None:
        """The live execution of a principal, or one that was detached and has ended meanwhile, which is given once."""
        execution = self._live.get(execution_id)
        if execution is None or execution.done.is_set():
            execution = self._suspensions.take_ended(execution_id, principal)
        return execution if execution is not None and execution.caller.principal == principal else None

    def note_answer(self, execution: Execution, text: str) -> None:
        """Have what the model got of an execution recorded, for the pages."""
        if execution.is_recorded and text:
            self.journal.note_answer(execution.execution_id, text)

    def detach(self, execution: Execution) -> None:
        """Let an execution that waits for a person go on without its host; `resume` comes back to it."""
        if self._tasks is not None:
            self._tasks.start_soon(self._suspensions.detach, execution)

    def _suspended_seconds(self, execution: Execution) -> float:
        """Without a session, its host may come back to another replica, which runs it again."""
        settings = self.config.settings
        is_program = execution.direct_call is None
        may_move = is_program and execution.session.is_ephemeral and settings.state.key is not None
        return _MOVE_SECONDS if self.is_draining or may_move else settings.approvals.suspended_seconds

    async def wait_with_host(self, execution: Execution) -> WaitEnd:
        """Wait until a live execution is settled, has a request for its host, or has waited for a person for so long
        that the host should be told."""
        seconds = self.config.settings.approvals.answer_seconds
        return await wait_with_host(execution, seconds, lambda: self.is_draining)

    def park(self, execution: Execution) -> None:
        """The host got the input requests of an execution. If it does not come back in time, the execution ends."""
        execution.resumed = anyio.Event()
        self._parked[execution.execution_id] = execution
        if self._tasks is not None:
            self._tasks.start_soon(self._cancel_unless_resumed, execution)

    def rejoin(self, execution_id: ExecutionId, principal: Principal) -> Execution:
        """The host has come back to an execution that was parked. Raises `MetaToolError` if it has ended, and the host
        took too long to come back."""
        execution = self._live.get(execution_id) or self._parked.get(execution_id)
        if execution is None or execution.caller.principal != principal:
            raise MetaToolError(
                "the program that asked for this has ended; go on with it by "
                f"execute_code(resume={execution_id!r}), or run it again"
            )
        self._parked.pop(execution_id, None)
        execution.resumed.set()
        return execution

    async def _cancel_unless_resumed(self, execution: Execution) -> None:
        if await host_returns(execution, self.config.settings.limits.input_seconds):
            return
        self._parked.pop(execution.execution_id, None)
        if execution.awaited:
            self.detach(execution)
        else:
            await self.cancel(execution.execution_id)

    async def cancel(self, execution_id: ExecutionId) -> None:
        """End a program and its calls in flight, and wait a bounded time until it is settled; else do nothing."""
        execution = self._live.get(execution_id)
        if execution is not None and not execution.done.is_set():
            execution.scope.cancel()
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_SECONDS):
                await execution.done.wait()

    def drain(self) -> None:
        """Start no program any more, and suspend each that waits for somebody, or will. The others go on."""
        self.is_draining = True
        for execution in list(self._live.values()):
            has_no_host = execution.is_detached or execution.execution_id in self._parked
            if has_no_host and is_suspendable(execution):
                give_up(execution)
            else:
                execution.changed.notify()

    @property
    def has_live(self) -> bool:
        return bool(self._live)

    def cancel_all(self) -> None:
        """End what still runs; its hosts are told how to go on."""
        for execution in list(self._live.values()):
            resume = f"; go on with it by execute_code(resume={execution.execution_id!r})" if execution.code else ""
            execution.calls.messages.append(f"codemode-server was stopped before this ended{resume}")
            execution.scope.cancel()

    def texts_of(self, execution_id: ExecutionId) -> ProgramTexts:
        """The program of a live execution with the skills that it has imported; empty if there is none."""
        execution = self._live.get(execution_id)
        return ProgramTexts() if execution is None else ProgramTexts(execution.code, dict(execution.imported))

    def take_call_event(self, event: CallEvent) -> None:
        """Subscriber of the gateway: notes what calls of live executions wait for and were answered."""
        execution = self._live.get(event.calls.execution_id)
        if execution is None:
            return
        match event:
            case CallApprovalRequested():
                execution.awaited[event.call.seq] = title_of(event.target)
                self._note_waiting(execution)
            case CallApprovalSettled():
                execution.awaited.pop(event.call.seq, None)
                if event.answer is not None:  # else it ends; its status stays what it was
                    self._note_waiting(execution)
            case CallEnded(reply=reply, outcome=outcome) if (
                reply is not None and outcome.status is CallStatus.SUCCEEDED
            ):
                if execution.results.add(event.seq, reply, event.result) and self._tasks is not None:
                    self._tasks.start_soon(_write_results, execution)

    def _note_waiting(self, execution: Execution) -> None:
        """Its status is `waiting` as long as any of its calls waits for a person."""
        if execution.status in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING):
            execution.status = ExecutionStatus.WAITING if execution.awaited else ExecutionStatus.RUNNING
            self.runner.note_status(execution)
        execution.changed.notify()


async def _write_results(execution: Execution) -> None:
    try:
        await execution.results.write()
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
    except Exception:  # as above
        logger.exception("results of execution %s could not be stored", execution.execution_id)
        execution.artifacts["calls"] = "internal error; the log has the details"
