"""Starts the executions of a product, waits for them, and cancels them.

An execution runs in a task of its own. Live executions are objects of the service; those that are settled come from the
journal. Nothing that a program does is raised from here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from codemode_server.calls.events import CallApprovalRequested, CallApprovalSettled, CallEnded, CallEvent
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.targets import title_of
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import JournalUnavailable, MetaToolError, SandboxUnavailable
from codemode_server.domain.executions import ExecutionKind, ExecutionStatus, Repeat
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.input_requests import NO_HOST_INPUT, HostInput
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import Effect
from codemode_server.executions.artifacts import ArtifactStore, NotStored
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.execution import DirectCall, Execution, limits_of, new_id
from codemode_server.executions.host_waiting import Suspensions, WaitEnd, host_returns, wait_with_host
from codemode_server.executions.runner import ExecutionRunner
from codemode_server.features.approvals.question import ProgramTexts
from codemode_server.features.data_flow.read_sources import ReadSources
from codemode_server.features.resume.reopening import RecordedRun, plan_of, recorded, reopened, to_apply
from codemode_server.features.resume.resumed_calls import ResumedCalls
from codemode_server.features.telemetry.metrics import EXECUTION_SECONDS, EXECUTIONS, Metrics
from codemode_server.support.background_tasks import OwnsTasks

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_journal import SqliteJournal

_CANCEL_SECONDS = 5.0
"""How long `cancel` waits for the end of a program."""
_LOOK_SECONDS = 1.0
"""How often requests of other processes to cancel a program are looked for while it runs."""


@dataclass(kw_only=True)
class ExecutionService(OwnsTasks):
    """Runs `limits.programs` at once; use as an async context manager, which ends those still running."""

    runner: ExecutionRunner
    artifacts: ArtifactStore
    journal: SqliteJournal
    effect_of: Callable[[str, str], Effect]
    """The effect of a tool, by the raw names of server and tool."""
    config: LiveConfig
    sources: ReadSources
    is_cancel_requested: Callable[[ExecutionId], bool]
    metrics: Metrics
    _live: dict[ExecutionId, Execution] = field(default_factory=dict)
    _parked: dict[ExecutionId, Execution] = field(default_factory=dict)
    """Those whose hosts come back, also if they end before."""

    def __post_init__(self) -> None:
        self._suspensions = Suspensions(lambda: self.config.settings.approvals.suspended_seconds)

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
        about the program."""
        calls = ExecutionCalls(new_id(), context, host=host, captured=set() if is_dry_run else None)
        return self._launch(self._execution(code, calls, timeout_s=timeout_s, description=description))

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
        return self._launch(self._execution("", calls, DirectCall(server, tool, arguments, is_prompt)))

    def _execution(
        self,
        code: str,
        calls: ExecutionCalls,
        call: DirectCall | None = None,
        *,
        timeout_s: float | None = None,
        repeat: Repeat | None = None,
        description: str = "",
    ) -> Execution:
        limits, results = limits_of(self.config.settings.limits, timeout_s), CallResults(self.artifacts)
        repeat = repeat or Repeat.new()
        return Execution(calls.execution_id, code, calls.context, limits, calls, results, call, description, repeat)

    def _launch(self, execution: Execution) -> Execution:
        if self._tasks is None:
            raise SandboxUnavailable("codemode-server is shutting down")
        self._live[execution.execution_id] = execution
        self._tasks.start_soon(self._run, execution, name=execution.execution_id)
        self._tasks.start_soon(self._cancel_on_request, execution)
        return execution

    async def _cancel_on_request(self, execution: Execution) -> None:
        """Cancel a live execution once another process asks for it, as the pages do."""
        while not execution.done.is_set():
            with anyio.move_on_after(_LOOK_SECONDS):
                await execution.done.wait()
            with suppress(JournalUnavailable):  # what the program does next will say so
                if not execution.done.is_set() and self.is_cancel_requested(execution.execution_id):
                    await self.cancel(execution.execution_id)
                    return

    async def resume(
        self,
        execution_id: ExecutionId,
        context: Caller,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Go on with an execution that waits or did not come to its end: the live one, or one whose program runs again
        with the recorded answers to its calls. One that was detached and has ended meanwhile is returned once.
        `timeout_s`: as for `start`, of a program that runs again. Raises `MetaToolError` if it can't be resumed, or has
        a time limit already."""
        live = self._live.get(execution_id) or self._suspensions.take_ended(execution_id, context.principal)
        if live is not None and live.context.principal == context.principal:
            if timeout_s is not None and not live.done.is_set():
                raise MetaToolError(
                    f"{execution_id} goes on within the time that it began with; resume it without 'timeout'"
                )
            self.sources.share(execution_id, live.context, context)
            if live.done.is_set():
                self.sources.end_sharing(execution_id)
            live.is_detached = False
            live.resumed.set()
            return live
        settings = self.config.settings
        past = await recorded(self.journal, context.principal, execution_id)
        await self._take_over(past, context)
        has_value = self.artifacts.has(context.owner, execution_id)
        past = await reopened(self.journal, past, context.session, has_value=has_value)
        calls = ExecutionCalls(execution_id, context, host=host)
        unknown, redact = settings.approvals.unknown, self.config.redactor.text
        has_failed = past.record.status in (ExecutionStatus.FAILED, ExecutionStatus.LIMITED)
        calls.resumed = ResumedCalls(
            past.calls, effect_of=self.effect_of, unknown=unknown, has_failed=has_failed, redact=redact
        )
        execution = self._new_rerun(past, calls, timeout_s)
        execution.is_rerun = execution.is_recorded = True  # so its end is recorded even if it never begins
        if (planned := past.record.applies) is not None:
            records = await self.journal.calls(context.principal, planned)
            execution.applies, calls.plan = planned, await plan_of(planned, records, self.config)
        return self._launch(execution)

    async def apply(
        self,
        execution_id: ExecutionId,
        context: Caller,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Start to run the program of a dry run for real, in an execution of its own; a call that differs from the plan
        waits for a person. `timeout_s`: as for `start`. Raises `MetaToolError` if there is no such dry run, or it can't
        be applied."""
        past = await to_apply(self.journal, context.principal, execution_id)
        await self._take_over(past, context)
        calls = ExecutionCalls(new_id(), context, host=host)
        calls.plan = await plan_of(execution_id, past.calls, self.config)
        execution = self._new_rerun(past, calls, timeout_s)
        execution.applies = execution_id
        return self._launch(execution)

    async def _take_over(self, past: RecordedRun, context: Caller) -> None:
        """The session of `context` gets a program, which may hold all that the session of its earlier run had read."""
        has_read = any(it.outcome is not None and it.outcome.status is CallStatus.SUCCEEDED for it in past.calls)
        await self.sources.take_over_session(context, past.record.session, has_read=has_read)

    def _new_rerun(self, past: RecordedRun, calls: ExecutionCalls, timeout_s: float | None = None) -> Execution:
        """An execution of a recorded program, with the same randomness."""
        description = past.record.description or ""
        return self._execution(past.code, calls, timeout_s=timeout_s, repeat=past.repeat, description=description)

    async def replay(self, execution_id: ExecutionId, context: Caller) -> Execution:
        """Start to run the program of a recorded execution in an execution of its own, in which the journal answers
        every call and nothing is sent. Raises `MetaToolError` if there is none with a program (any more)."""
        past = await recorded(self.journal, context.principal, execution_id)
        await self._take_over(past, context)
        calls = ExecutionCalls(new_id(), context)
        calls.resumed = ResumedCalls(past.calls, effect_of=self.effect_of, unknown="fail", is_closed=True)
        return self._launch(self._new_rerun(past, calls))

    def detach(self, execution: Execution) -> None:
        """Let an execution that waits for a person go on without its host; `resume` comes back to it."""
        if self._tasks is not None:
            self._tasks.start_soon(self._suspensions.detach, execution)

    async def wait_with_host(self, execution: Execution) -> WaitEnd:
        """Wait until a live execution is settled, has a request for its host, or has waited for a person for so long
        that the host should be told."""
        return await wait_with_host(execution, self.config.settings.approvals.answer_seconds)

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
        if execution is None or execution.context.principal != principal:
            raise MetaToolError("the program that asked for this has ended; run it again")
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
        if (execution := self._live.get(execution_id)) is not None:
            execution.scope.cancel()
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_SECONDS):
                await execution.done.wait()

    def texts_of(self, execution_id: ExecutionId) -> ProgramTexts:
        """The program of a live execution with the skills that it has imported; empty if there is none."""
        execution = self._live.get(execution_id)
        return ProgramTexts() if execution is None else ProgramTexts(execution.code, dict(execution.skills.loaded))

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

    async def _run(self, execution: Execution) -> None:
        """One execution from its turn to its settlement."""
        try:
            await self.runner.run(execution)
        finally:
            with anyio.CancelScope(shield=True):
                await execution.results.drop()
            self.sources.end_sharing(execution.execution_id)
            self._live.pop(execution.execution_id)
            execution.done.set()
            execution.changed.notify()
            kind = ExecutionKind.DIRECT_CALL if execution.direct_call else ExecutionKind.PROGRAM
            self.metrics.count(EXECUTIONS, kind.value, execution.status.value)
            self.metrics.count(EXECUTION_SECONDS, kind.value, amount=execution.milliseconds / 1e3)


async def _write_results(execution: Execution) -> None:
    """Write the call results that are held in memory to a file."""
    try:
        await execution.results.write()
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
