"""Starts the executions of a product, waits for them, publishes their events, cancels and lists them.

An execution runs in a task of its own; `start` is followed by `wait`. Live executions are objects
of the service; those that are settled come from the journal. Nothing that a program does is raised from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import anyio

from codemode_server.background_tasks import OwnsTasks
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import MetaToolError, SandboxUnavailable
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import Effect
from codemode_server.executions.approvals.program_lines import ProgramTexts
from codemode_server.executions.artifacts import ArtifactStore, NotStored
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.cancel_requests import CancelRequests, cancel_on_request
from codemode_server.executions.events import (
    ExecutionCallBegan,
    ExecutionCallEnded,
    ExecutionSettled,
    ExecutionWaiting,
    Subscription,
)
from codemode_server.executions.execution import DirectCall, Execution, limits_of, new_id
from codemode_server.executions.pending_input import PendingInput
from codemode_server.executions.plans import plan_of, to_apply, with_planned_clock
from codemode_server.executions.reopening import PastRun, recorded, reopened
from codemode_server.executions.runner import ExecutionRunner
from codemode_server.executions.suspension import Suspensions
from codemode_server.gateway.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallBegan,
    CallEnded,
    CallEvent,
)
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.host_input import NO_HOST_INPUT, HostInput
from codemode_server.gateway.journal import Journal
from codemode_server.gateway.past_calls import PastCalls
from codemode_server.gateway.targets import title_of

_CANCEL_SECONDS = 5.0
"""How long `cancel` waits for the end of a program."""


class News(StrEnum):
    """An execution …"""

    ENDED = "ended"
    INPUT = "input"  # asks its host for input
    SUSPENDED = "suspended"  # waits for a person


class ExecutionService(OwnsTasks):
    """Runs `limits.programs` at once; use as an async context manager, which ends those still running."""

    def __init__(
        self,
        *,
        runner: ExecutionRunner,
        artifacts: ArtifactStore,
        journal: Journal,
        effect_of: Callable[[str, str], Effect],
        config: LiveConfig,
        cancel_requests: CancelRequests | None = None,
    ) -> None:
        """`effect_of`: of a tool by the raw names of server and tool."""
        self._cancel_requests = cancel_requests
        self._runner = runner
        self._artifacts = artifacts
        self._journal = journal
        self._config = config
        self._live: dict[ExecutionId, Execution] = {}
        self._parked: dict[ExecutionId, Execution] = {}
        """Those whose hosts come back, also if they end before."""
        self._subscriptions = runner.subscriptions
        self._effect_of = effect_of
        self._suspensions = Suspensions(lambda: config.settings.approvals.suspended_seconds)

    def start(
        self,
        code: str,
        context: RequestContext,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
        is_dry_run: bool = False,
        description: str = "",
    ) -> Execution:
        """Start a program and return at once. `timeout_s` takes the place of `limits.wall_seconds`; `host` answers what
        upstreams ask. In a dry run, calls that may change something are not sent. `description` is what the model says
        about the program."""
        execution = self._start(code, context, host, timeout_s=timeout_s, is_dry_run=is_dry_run)
        execution.description = description
        return execution

    def start_call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, JsonValue],
        context: RequestContext,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Start one call of a tool, by its raw names, without a program or a sandbox, and return at once."""
        return self._start("", context, host, DirectCall(server, tool, arguments))

    def start_prompt(
        self, server: str, name: str, arguments: dict[str, JsonValue], context: RequestContext
    ) -> Execution:
        """Start to get one prompt, by its raw names, and return at once. Its server can't ask the host anything."""
        return self._start("", context, NO_HOST_INPUT, DirectCall(server, name, arguments, is_prompt=True))

    def _start(
        self,
        code: str,
        context: RequestContext,
        host: HostInput,
        call: DirectCall | None = None,
        *,
        timeout_s: float | None = None,
        is_dry_run: bool = False,
    ) -> Execution:
        calls = ExecutionCalls(new_id(), context, host=host, captured=set() if is_dry_run else None)
        limits, results = limits_of(self._config.settings.limits, timeout_s), CallResults(self._artifacts)
        return self._started(Execution(calls.execution_id, code, context, limits, calls, results, call))

    def _started(self, execution: Execution) -> Execution:
        if self._tasks is None:
            raise SandboxUnavailable("codemode-server is shutting down")
        self._live[execution.execution_id] = execution
        self._tasks.start_soon(self._run, execution, name=execution.execution_id)
        if self._cancel_requests is not None:
            self._tasks.start_soon(cancel_on_request, execution, self._cancel_requests, self.cancel)
        return execution

    async def resume(
        self,
        execution_id: ExecutionId,
        context: RequestContext,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Go on with an execution that waits or did not come to its end: the live one, or one whose program runs again
        with the recorded answers to its calls. One that was detached and has ended meanwhile is returned once.
        `timeout_s`: as for `start`, of a program that runs again.

        Raises:
            MetaToolError: it can't be resumed, or has a time limit already.
        """
        live = self._live.get(execution_id) or self._suspensions.take_ended(execution_id, context.principal)
        if live is not None and live.context.principal == context.principal:
            if timeout_s is not None and not live.done.is_set():
                raise MetaToolError(
                    f"{execution_id} goes on within the time that it began with; resume it without 'timeout'"
                )
            live.is_detached = False
            live.resumed.set()
            return live
        settings = self._config.settings
        past = await reopened(self._journal, context.principal, execution_id)
        past = await with_planned_clock(self._journal, context.principal, past)
        calls = ExecutionCalls(execution_id, context, host=host)
        calls.past = PastCalls(past.calls, effect_of=self._effect_of, unknown=settings.approvals.unknown)
        execution = self._again(past, calls, timeout_s)
        execution.is_rerun = execution.is_recorded = True  # so its end is recorded even if it never begins
        return await self._planned(execution, past.record.applies)

    async def apply(
        self,
        execution_id: ExecutionId,
        context: RequestContext,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Start to run the program of a dry run for real, in an execution of its own; a call that differs from the plan
        waits for a person. `timeout_s`: as for `start`.

        Raises:
            MetaToolError: there is no such dry run, or it can't be applied.
        """
        past = await to_apply(self._journal, context.principal, execution_id)
        calls = ExecutionCalls(new_id(), context, host=host)
        return await self._planned(self._again(past, calls, timeout_s), execution_id)

    async def _planned(self, execution: Execution, dry_run_id: ExecutionId | None) -> Execution:
        """Start it; if it applies a dry run, with the plan of that."""
        execution.applies = dry_run_id
        if dry_run_id is not None:
            execution.calls.plan = await plan_of(self._journal, execution.context.principal, dry_run_id, self._config)
        return self._started(execution)

    def _again(self, past: PastRun, calls: ExecutionCalls, timeout_s: float | None = None) -> Execution:
        """An execution of a recorded program, with the same randomness and clock."""
        limits, results = limits_of(self._config.settings.limits, timeout_s), CallResults(self._artifacts)
        execution = Execution(calls.execution_id, past.code, calls.context, limits, calls, results, repeat=past.repeat)
        execution.description = past.record.description or ""
        return execution

    async def replay(self, execution_id: ExecutionId, context: RequestContext) -> Execution:
        """Start to run the program of a recorded execution in an execution of its own, in which the journal answers
        every call and nothing is sent.

        Raises:
            MetaToolError: there is none with a program (any more).
        """
        past = await recorded(self._journal, context.principal, execution_id)
        calls = ExecutionCalls(new_id(), context)
        calls.past = PastCalls(past.calls, effect_of=self._effect_of, unknown="fail", is_closed=True)
        return self._started(self._again(past, calls))

    def detach(self, execution: Execution) -> None:
        """Let an execution that waits for a person go on without its host; `resume` comes back to it."""
        if self._tasks is not None:
            self._tasks.start_soon(self._suspensions.detach, execution)

    async def wait(self, execution_id: ExecutionId) -> Execution:
        """Wait until a live execution is settled. It goes on if the waiting is cancelled.

        Raises:
            MetaToolError: it is not live.
        """
        execution = self._live.get(execution_id)
        if execution is None:
            raise MetaToolError(f"no execution {execution_id!r} is running")
        await execution.done.wait()
        return execution

    async def wait_for_news(self, execution: Execution) -> News:
        """Wait until a live execution is settled, has a request for its host, or has waited for a person for so long
        that the host should be told."""
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._wait_suspended, execution, began, tasks.cancel_scope)
            if execution.pending_input is not None:

                async def wait_for_request(pending: PendingInput) -> None:
                    await pending.wait_for_request()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(wait_for_request, execution.pending_input)
            await execution.done.wait()
            tasks.cancel_scope.cancel()
        if execution.done.is_set():
            return News.ENDED
        has_request = execution.pending_input is not None and bool(execution.pending_input.waiting)
        return News.INPUT if has_request else News.SUSPENDED

    async def _wait_suspended(self, execution: Execution, began: float, scope: anyio.CancelScope) -> None:
        """Cancel `scope` once a person is awaited, and the host has waited for `approvals.answer_seconds`."""
        until = began + self._config.settings.approvals.answer_seconds
        events = self._subscriptions.open(execution.execution_id)
        await anyio.sleep_until(until)
        while not execution.awaited and not execution.done.is_set():
            await events.read_all()
        scope.cancel()

    def park(self, execution: Execution) -> None:
        """The host got the input requests of an execution. If it does not come back in time, the execution ends."""
        execution.resumed = anyio.Event()
        self._parked[execution.execution_id] = execution
        if self._tasks is not None:
            self._tasks.start_soon(self._cancel_unless_resumed, execution)

    def rejoin(self, execution_id: ExecutionId, principal: Principal) -> Execution:
        """The host has come back to an execution that was parked.

        Raises:
            MetaToolError: it has ended, and the host took too long to come back.
        """
        execution = self._live.get(execution_id) or self._parked.get(execution_id)
        if execution is None or execution.context.principal != principal:
            raise MetaToolError("the program that asked for this has ended; run it again")
        self._parked.pop(execution_id, None)
        execution.resumed.set()
        return execution

    async def _cancel_unless_resumed(self, execution: Execution) -> None:
        resumed, settings = execution.resumed, self._config.settings
        with anyio.move_on_after(settings.limits.input_seconds):
            async with anyio.create_task_group() as tasks:

                async def wait_for_end() -> None:
                    await execution.done.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(wait_for_end)
                await resumed.wait()
                tasks.cancel_scope.cancel()
        if execution.done.is_set():  # the person answered in another way; the host comes for the result
            with anyio.move_on_after(settings.limits.input_seconds):
                await resumed.wait()
        if resumed.is_set():
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

    async def get(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        """One execution of a principal, live or settled; None if there is none (any more)."""
        live = self._live.get(execution_id)
        if live is not None and live.context.principal == principal:
            return live.record()
        return await self._journal.execution(principal, execution_id)

    async def list(self, principal: Principal, *, limit: int = 50) -> Sequence[ExecutionRecord]:
        """Executions of a principal, newest first."""
        settled = await self._journal.executions(principal, limit=limit)
        live = [it.record() for it in self._live.values() if it.context.principal == principal]
        seen = {it.execution_id for it in live}
        found = [*live, *(it for it in settled if it.execution_id not in seen)]
        return sorted(found, key=lambda it: it.started_at, reverse=True)[:limit]

    def texts_of(self, execution_id: ExecutionId) -> ProgramTexts:
        """The program of a live execution with the skills that it has imported; empty if there is none."""
        execution = self._live.get(execution_id)
        return ProgramTexts() if execution is None else ProgramTexts(execution.code, dict(execution.skills.loaded))

    def subscribe(self, execution_id: ExecutionId) -> Subscription:
        """The events of a live execution from now on.

        Raises:
            MetaToolError: it is not live.
        """
        if execution_id not in self._live:
            raise MetaToolError(f"no execution {execution_id!r} is running")
        return self._subscriptions.open(execution_id)

    def take_call_event(self, event: CallEvent) -> None:
        """Subscriber of the gateway: publishes calls to subscribers, and holds their results."""
        match event:
            case CallBegan(calls, call):
                began = ExecutionCallBegan(calls.execution_id, call.seq, call.server, call.tool)
                self._subscriptions.publish(began)
            case CallApprovalRequested() | CallApprovalSettled():
                self._note_approval(event)
            case CallEnded(calls, call, outcome=outcome):
                ended = ExecutionCallEnded(calls.execution_id, call.seq, outcome.status, outcome.milliseconds)
                self._subscriptions.publish(ended)
                execution = self._live.get(calls.execution_id)
                if execution is None or event.reply is None or outcome.status is not CallStatus.SUCCEEDED:
                    return
                if execution.results.add(call.seq, event.reply, event.result) and self._tasks is not None:
                    self._tasks.start_soon(self._write_results, execution)
            case _:
                pass

    def _note_approval(self, event: CallApprovalRequested | CallApprovalSettled) -> None:
        """Its status is `waiting` as long as any of its calls waits for a person."""
        execution = self._live.get(event.calls.execution_id)
        if execution is None:
            return
        if isinstance(event, CallApprovalRequested):
            execution.awaited[event.call.seq] = title_of(event.target)
        else:
            execution.awaited.pop(event.call.seq, None)
            if event.answer is None:  # it ends; its status stays what it was
                return
        if execution.status in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING):
            execution.status = ExecutionStatus.WAITING if execution.awaited else ExecutionStatus.RUNNING
            self._runner.note_status(execution)
        self._subscriptions.publish(ExecutionWaiting(execution.execution_id, tuple(execution.awaited.values())))

    async def _write_results(self, execution: Execution) -> None:
        try:
            await execution.results.write()
        except NotStored as error:
            execution.artifacts["calls"] = str(error)

    async def _run(self, execution: Execution) -> None:
        """One execution from its turn to its settlement."""
        try:
            await self._runner.run(execution)
        finally:
            with anyio.CancelScope(shield=True):
                await execution.results.drop()
            self._live.pop(execution.execution_id)
            execution.done.set()
            self._subscriptions.publish(ExecutionSettled(execution.execution_id, execution.status))
