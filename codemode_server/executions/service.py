"""Starts the executions of a product, waits for them, publishes their events, cancels and lists them.

An execution runs in a task of its own; `start` is followed by `wait`. Live executions are objects
of the service; those that are settled come from the journal. Nothing that a program does is raised from here.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
from opentelemetry.trace import Span

from codemode_server.background_tasks import OwnsTasks
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import (
    CodemodeError,
    JournalUnavailable,
    LimitExceeded,
    MetaToolError,
    SandboxFailed,
    SandboxUnavailable,
)
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.executions.artifacts import ArtifactStore, NotStored
from codemode_server.executions.call_results import CallResults
from codemode_server.executions.direct_calls import run_direct_call
from codemode_server.executions.events import (
    ExecutionCallBegan,
    ExecutionCallEnded,
    ExecutionQueued,
    ExecutionSettled,
    ExecutionStarted,
    Subscription,
    Subscriptions,
)
from codemode_server.executions.execution import DirectCall, Execution, Phase, limits_of
from codemode_server.executions.host_api import ProgramHostApi
from codemode_server.executions.outcome_artifacts import store_outcome
from codemode_server.executions.pending_input import PendingInput
from codemode_server.executions.preflight.preflight import Checked
from codemode_server.executions.recording import ExecutionRecorder
from codemode_server.executions.scheduling import QueuePlace, Turns
from codemode_server.executions.workspace import Workspace
from codemode_server.gateway.events import CallBegan, CallEnded, CallEvent
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.gateway import Gateway
from codemode_server.gateway.host_input import NO_HOST_INPUT, HostInput
from codemode_server.gateway.journal import Journal
from codemode_server.sandbox.backend_selection import Sandbox
from codemode_server.sandbox.contract import Ending, Outcome, Program, ProgramError
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName
from codemode_server.telemetry import spans

logger = logging.getLogger(__name__)

_CANCEL_SECONDS = 5.0
"""How long `cancel` waits for the end of a program."""
_SHORT_RESULT_TOKENS = 1_000
"""A call with a longer result is better made by a program, which picks what it needs."""
_STATUS = {
    Ending.RETURNED: ExecutionStatus.SUCCEEDED,
    Ending.RAISED: ExecutionStatus.FAILED,
    Ending.LIMITED: ExecutionStatus.LIMITED,
    Ending.DIED: ExecutionStatus.CRASHED,
}


class ExecutionService(OwnsTasks):
    """Runs `limits.programs` at once; use as an async context manager, which ends those still running."""

    def __init__(
        self,
        *,
        traced: Callable[[], Awaitable[object]],
        check: Callable[[str, frozenset[str] | None, str], Awaitable[Checked]],
        sandbox: Sandbox,
        host_api: Callable[[Execution], ProgramHostApi],
        gateway: Gateway,
        artifacts: ArtifactStore,
        usage: UsageStats,
        lone_usage: UsageStats,
        recorder: ExecutionRecorder,
        journal: Journal,
        workspaces: Callable[[Principal], Workspace],
        config: LiveConfig,
    ) -> None:
        self._traced = traced
        self._check = check
        self._sandbox = sandbox
        self._host_api = host_api
        self._gateway = gateway
        self._artifacts = artifacts
        self._usage = usage
        self._lone_usage = lone_usage
        self._recorder = recorder
        self._journal = journal
        self._workspaces = workspaces
        self._config = config
        self._turns = Turns()
        self._live: dict[ExecutionId, Execution] = {}
        self._subscriptions = Subscriptions()

    def start(
        self,
        code: str,
        context: RequestContext,
        *,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Start a program and return at once. `timeout_s` takes the place of `limits.wall_seconds`; `host` answers what
        upstreams ask."""
        return self._start(code, context, host, timeout_s=timeout_s)

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
    ) -> Execution:
        if self._tasks is None:
            raise SandboxUnavailable("codemode-server is shutting down")
        execution_id = ExecutionId("x" + secrets.token_hex(6))
        limits = limits_of(self._config.settings.limits, timeout_s)
        calls, results = ExecutionCalls(execution_id, context, host=host), CallResults(self._artifacts)
        execution = Execution(execution_id, code, context, limits, calls, results, call)
        self._live[execution_id] = execution
        self._tasks.start_soon(self._run, execution, name=execution_id)
        return execution

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

    async def wait_for_end_or_input_request(self, execution: Execution) -> bool:
        """Wait until a live execution is settled, or has a request for its host. Returns whether it is settled."""
        async with anyio.create_task_group() as tasks:
            if execution.pending_input is not None:

                async def wait_for_request(pending: PendingInput) -> None:
                    await pending.wait_for_request()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(wait_for_request, execution.pending_input)
            await execution.done.wait()
            tasks.cancel_scope.cancel()
        return execution.done.is_set()

    def park(self, execution: Execution) -> None:
        """The host got the input requests of an execution. If it does not come back in time, the execution ends."""
        execution.resumed = anyio.Event()
        if self._tasks is not None:
            self._tasks.start_soon(self._cancel_unless_resumed, execution)

    def resume(self, execution_id: ExecutionId, principal: Principal) -> Execution:
        """The host has come back to an execution that was parked.

        Raises:
            MetaToolError: it has ended.
        """
        execution = self._live.get(execution_id)
        if execution is None or execution.context.principal != principal:
            raise MetaToolError("the program that asked for this has ended; run it again")
        execution.resumed.set()
        return execution

    async def _cancel_unless_resumed(self, execution: Execution) -> None:
        resumed = execution.resumed
        with anyio.move_on_after(self._config.settings.limits.input_seconds):
            async with anyio.create_task_group() as tasks:

                async def wait_for_end() -> None:
                    await execution.done.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(wait_for_end)
                await resumed.wait()
                tasks.cancel_scope.cancel()
        if not resumed.is_set():
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

    async def _write_results(self, execution: Execution) -> None:
        try:
            await execution.results.write()
        except NotStored as error:
            execution.artifacts["calls"] = str(error)

    async def _run(self, execution: Execution) -> None:
        """One execution from its turn to its settlement."""
        try:
            # Exporters are set up after the handshake; a span begun before that would be lost with all beneath it.
            await self._traced()
            with spans.tracer().start_as_current_span("execution") as span:
                started = time.perf_counter()
                try:
                    await self._run_in_turn(execution, span)
                finally:
                    execution.milliseconds = (time.perf_counter() - started) * 1e3
                    with anyio.CancelScope(shield=True):
                        await self._settle(execution, span)
        finally:
            with anyio.CancelScope(shield=True):
                await execution.results.drop()
            self._live.pop(execution.execution_id)
            execution.done.set()
            self._subscriptions.publish(ExecutionSettled(execution.execution_id, execution.status))

    async def _run_in_turn(self, execution: Execution, span: Span) -> None:
        """Every way in which it ends becomes its status and outcome; only the end of the product is raised."""

        def queued(place: QueuePlace) -> None:
            execution.queue = place
            self._subscriptions.publish(ExecutionQueued(execution.execution_id, place))

        def wait() -> None:
            execution.phase = Phase.QUEUED

        try:
            with execution.scope:
                limits = self._config.settings.limits
                async with self._turns.turn(execution.session, limits, on_wait=wait, on_place=queued):
                    execution.status = ExecutionStatus.RUNNING
                    self._subscriptions.publish(ExecutionStarted(execution.execution_id))
                    await (self._run_direct_call if execution.direct_call else self._run_program)(execution, span)
            if execution.scope.cancelled_caught:
                execution.status = ExecutionStatus.CANCELLED
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_SECONDS):
                    await store_outcome(execution, self._artifacts, self._config.redactor)
        except CodemodeError as error:
            execution.status, execution.outcome = _not_run(error)
        except anyio.get_cancelled_exc_class():
            execution.status = ExecutionStatus.CANCELLED
            raise
        except Exception:  # an internal error ends this execution, not the others
            logger.exception("execution %s failed on our side", execution.execution_id)
            execution.status, execution.outcome = _not_run(SandboxFailed("internal error; the log has the details"))

    async def _run_direct_call(self, execution: Execution, span: Span) -> None:
        await self._recorder.begin(execution, span, "")
        execution.phase = Phase.RUNNING
        execution.begun.set()
        execution.outcome = await run_direct_call(execution, self._gateway, self._config.redactor)
        execution.status = _STATUS[execution.outcome.ending]
        await store_outcome(execution, self._artifacts, self._config.redactor)

    async def _run_program(self, execution: Execution, span: Span) -> None:
        execution.phase = Phase.PREPARING
        backend = await self._sandbox.ready()
        execution.level = backend.level
        await self._recorder.begin(execution, span, self._sandbox.shortfall)
        execution.phase = Phase.CHECKING
        last_value = self._artifacts.last_value(execution.owner)
        checked = await self._check(execution.code, backend.importable, last_value)
        is_rejected = bool(checked.errors)
        if await self._gateway.offer_sign_ins(execution.calls, checked.imports, is_rejected=is_rejected):
            checked = await self._check(execution.code, backend.importable, last_value)
        self._recorder.checked(checked, span)
        if checked.errors:
            execution.warnings += checked.warning_lines()
            error = ProgramError("CheckFailed", checked.message, line=checked.errors[0].line)
            execution.status, execution.outcome = ExecutionStatus.FAILED, Outcome(Ending.RAISED, error=error)
            return
        execution.phase = Phase.RUNNING
        execution.calls.doubted_keys = checked.doubted_keys
        host_api = self._host_api(execution)
        program = self._program(execution, host_api.modules(checked.imports))
        execution.outcome = await backend.run(program, host_api)
        execution.warnings += checked.warning_lines(execution.calls.received_keys)
        execution.status = _STATUS[execution.outcome.ending]
        await store_outcome(execution, self._artifacts, self._config.redactor)

    def _program(self, execution: Execution, modules: Mapping[str, dict[str, Any]]) -> Program:
        return Program(
            execution.execution_id,
            execution.code,
            execution.limits,
            self._workspaces(execution.context.principal).make(),
            session_id=execution.session.session_id,
            is_last=execution.session.is_ephemeral,
            modules=modules,
            begun=execution.begun,
            host_wait=execution.calls.host_wait,
            repeat=execution.repeat,
            clock=execution.calls.clock,
        )

    async def _settle(self, execution: Execution, span: Span) -> None:
        try:
            await self._recorder.end(execution, span)
        except JournalUnavailable as unavailable:
            execution.status, execution.outcome = _not_run(unavailable)
        answered = [report for report in execution.calls.reports if report.status is CallStatus.SUCCEEDED]
        used = [ToolName(report.server, report.tool) for report in answered]
        self._usage.used(execution.session, used)
        if execution.calls.started == 1 and answered and answered[0].result_tokens <= _SHORT_RESULT_TOKENS:
            self._lone_usage.used(execution.session, used)


def _not_run(error: CodemodeError) -> tuple[ExecutionStatus, Outcome]:
    """The status and outcome of an execution that the host could not run or record."""
    setting = error.setting if isinstance(error, LimitExceeded) else None
    ending = Ending.LIMITED if setting else Ending.DIED
    # A stage may have an error class of its own; the model gets the documented base class.
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == CodemodeError.__module__)
    return _STATUS[ending], Outcome(ending, error=ProgramError(kind.__name__, str(error), setting=setting))
