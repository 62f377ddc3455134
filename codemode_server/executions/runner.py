"""Runs one execution: waits for its turn, has it checked, gives it to the sandbox, and records its end.

Nothing that a program does is raised from here: every way in which it ends becomes its status and its outcome.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from opentelemetry.trace import Span

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.gateway import Gateway
from codemode_server.calls.policy.refusals import ToolRefusals
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import ANY, CallStatus, ResultKey
from codemode_server.domain.errors import CodemodeError, JournalUnavailable, LimitExceeded, SandboxFailed
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.principals import Principal
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.execution import Execution, Phase
from codemode_server.executions.host_api import ProgramHostApi
from codemode_server.executions.outcome_artifacts import store_outcome
from codemode_server.executions.preflight.preflight import CheckContext, Checked
from codemode_server.executions.recording import ExecutionRecorder
from codemode_server.executions.scheduling import QueuePlace, Turns
from codemode_server.executions.workspace import SESSIONS, Workspace, copied
from codemode_server.features.data_flow.read_sources import CLOCK_SECONDS, ReadSources
from codemode_server.features.direct_tools.runs import run_direct_call
from codemode_server.features.dry_run.plan_report import without_placeholder_numbers
from codemode_server.features.guardrails.guarded_programs import ProgramGuard
from codemode_server.features.session_logs.session_log import SessionLogs
from codemode_server.features.skills.program_skills import ProgramSkills
from codemode_server.features.telemetry import spans
from codemode_server.sandbox.backend_selection import Sandbox
from codemode_server.sandbox.contract import Ending, Outcome, Program, ProgramError
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName
from codemode_server.support.off_loop import run_large

logger = logging.getLogger(__name__)

_STORE_SECONDS = 5.0
"""How long the results of a cancelled program may take to be stored."""
_OTHER_BUILD = (
    "this is another sandbox than that of the earlier run (codemode-server was updated or moved), so sets have another "
    "order; what the program did in the order of a set may have come in another one"
)
_STATUS = {
    Ending.RETURNED: ExecutionStatus.SUCCEEDED,
    Ending.RAISED: ExecutionStatus.FAILED,
    Ending.LIMITED: ExecutionStatus.LIMITED,
    Ending.DIED: ExecutionStatus.CRASHED,
}


@dataclass(slots=True, kw_only=True)
class ExecutionRunner:
    """Runs `limits.programs` at once; the others wait for their turn."""

    traced: Callable[[], Awaitable[object]]
    check: Callable[[str, CheckContext], Awaitable[Checked]]
    refusals: Callable[[Caller], ToolRefusals]
    sandbox: Sandbox
    host_api: Callable[[Execution], ProgramHostApi]
    gateway: Gateway
    guard: ProgramGuard
    artifacts: ArtifactStore
    usage: UsageStats
    recorder: ExecutionRecorder
    workspaces: Callable[[Principal], Workspace]
    sources: ReadSources
    session_logs: SessionLogs
    skills: ProgramSkills
    config: LiveConfig
    turns: Turns = field(default_factory=Turns)

    async def run(self, execution: Execution) -> None:
        """One execution from its turn to its settlement."""
        # Exporters are set up after the handshake; a span begun before that would be lost with all beneath it.
        await self.traced()
        with spans.tracer().start_as_current_span("execution") as span:
            started = time.perf_counter()
            try:
                await self._run_in_turn(execution, span)
            finally:
                execution.milliseconds = (time.perf_counter() - started) * 1e3
                with anyio.CancelScope(shield=True):
                    await self._settle(execution, span)

    def note_status(self, execution: Execution) -> None:
        """Others may run while an execution waits for a person."""
        is_waiting = execution.status is ExecutionStatus.WAITING
        if is_waiting and not execution.is_suspended:
            execution.is_suspended = self.turns.suspend(execution.owner, self.config.settings.limits)
        elif not is_waiting:
            self._go_on(execution)

    def _go_on(self, execution: Execution) -> None:
        if execution.is_suspended:
            execution.is_suspended = False
            self.turns.go_on(execution.owner)

    async def _run_in_turn(self, execution: Execution, span: Span) -> None:
        """Every way in which it ends becomes its status and outcome; only the end of the product is raised."""

        def queued(place: QueuePlace) -> None:
            execution.queue = place

        def wait() -> None:
            execution.phase = Phase.QUEUED

        try:
            with execution.scope:
                limits = self.config.settings.limits
                async with self.turns.turn(execution.owner, limits, on_wait=wait, on_place=queued):
                    execution.status = ExecutionStatus.RUNNING
                    try:
                        await (self._run_direct_call if execution.direct_call else self._run_program)(execution, span)
                    finally:
                        self._go_on(execution)
            if execution.scope.cancelled_caught:
                execution.status = ExecutionStatus.WAITING if execution.is_given_up else ExecutionStatus.CANCELLED
                with anyio.CancelScope(shield=True), anyio.move_on_after(_STORE_SECONDS):
                    await store_outcome(execution, self.artifacts)
        except CodemodeError as error:
            execution.status, execution.outcome = _not_run(error)
        except anyio.get_cancelled_exc_class():
            is_suspended = execution.is_detached and execution.status is ExecutionStatus.WAITING
            execution.status = ExecutionStatus.WAITING if is_suspended else ExecutionStatus.CANCELLED
            raise
        except Exception:  # an internal error ends this execution, not the others
            logger.exception("execution %s failed on our side", execution.execution_id)
            execution.status, execution.outcome = _not_run(SandboxFailed("internal error; the log has the details"))

    async def _run_direct_call(self, execution: Execution, span: Span) -> None:
        await self.recorder.begin(execution, span, "")
        execution.phase = Phase.RUNNING
        execution.begun.set()
        execution.outcome = await run_direct_call(execution, self.gateway, self.guard)
        execution.status = _STATUS[execution.outcome.ending]
        await store_outcome(execution, self.artifacts)

    async def _run_program(self, execution: Execution, span: Span) -> None:
        execution.phase = Phase.PREPARING
        backend = await self.sandbox.ready()
        execution.level = backend.level
        if execution.repeat.build not in ("", backend.build):
            execution.calls.messages.append(_OTHER_BUILD)
        execution.repeat = replace(execution.repeat, build=backend.build)
        blocked = await self.guard.before(execution)
        await self.recorder.begin(execution, span, self.sandbox.shortfall)
        if blocked is not None:
            execution.status, execution.outcome = ExecutionStatus.FAILED, blocked
            return
        execution.phase = Phase.CHECKING
        workspace = self.workspaces(execution.context.principal)
        check = partial(
            self.check,
            execution.code,
            CheckContext(
                backend.importable,
                partial(self.artifacts.last_value, execution.owner),
                self.refusals(execution.context).of,
                workspace.may_have_module,
                partial(self.skills.library.why_missing, execution.owner),
            ),
        )
        checked = await check()
        is_rejected = bool(checked.errors)
        if await self.gateway.offer_sign_ins(execution.calls, checked.imports, is_rejected=is_rejected):
            checked = await check()
        found = {"codemode__check_errors": checked.errors, "codemode__check_warnings": checked.warnings}
        spans.describe(span, "span", **{name: len(it) or None for name, it in found.items()})
        if checked.errors:
            execution.warnings += checked.warning_lines()
            error = ProgramError("CheckFailed", checked.message, line=checked.errors[0].line)
            execution.status, execution.outcome = ExecutionStatus.FAILED, Outcome(Ending.RAISED, error=error)
            return
        execution.phase = Phase.RUNNING
        execution.calls.doubted_keys = checked.doubted_keys
        host_api, quota = self.host_api(execution), execution.limits.workspace_mb * 2**20
        async with (
            followed(self.sources, execution, workspace, self.session_logs.is_logged),
            copied(workspace.make(), quota) if execution.is_dry_run else nullcontext(workspace.make()) as folder,
        ):
            self.session_logs.begin(execution)
            outcome = await backend.run(self._program(execution, host_api.modules(checked.imports), folder), host_api)
        if execution.is_dry_run:
            outcome = await run_large(without_placeholder_numbers, outcome)
        execution.outcome = await self.guard.after(execution, outcome)
        execution.status = _STATUS[execution.outcome.ending]
        is_refuted = partial(refutes, execution.calls, has_succeeded=execution.status is ExecutionStatus.SUCCEEDED)
        raised = execution.outcome.error
        execution.warnings += checked.warning_lines(is_refuted, "" if raised is None else raised.message)
        for earlier in (execution.calls.resumed, execution.calls.plan):
            execution.calls.messages += earlier.remarks() if earlier is not None else []
        if execution.is_dry_run:
            execution.plan = await self.guard.plan(execution, await self.recorder.plan(execution))
        await store_outcome(execution, self.artifacts)

    def _program(self, execution: Execution, modules: Mapping[str, dict[str, Any]], workspace: Path) -> Program:
        return Program(
            execution.execution_id,
            execution.code,
            execution.limits,
            workspace,
            session_id=execution.session.session_id,
            # A sandbox with the copy of a workspace is of no use to later programs.
            is_last=execution.session.is_ephemeral or execution.is_dry_run,
            modules=modules,
            begun=execution.begun,
            host_wait=execution.calls.host_wait,
            repeat=execution.repeat,
        )

    async def _settle(self, execution: Execution, span: Span) -> None:
        try:
            await self.recorder.end(execution, span)
        except JournalUnavailable as unavailable:
            execution.status, execution.outcome = _not_run(unavailable)
        await self.session_logs.end(execution)
        await self.skills.settle(execution)
        answered = [report for report in execution.calls.reports if report.status is CallStatus.SUCCEEDED]
        self.usage.used([ToolName(report.server, report.tool) for report in answered])


def refutes(calls: ExecutionCalls, doubted: ResultKey, *, has_succeeded: bool) -> bool:
    """True if a run had the result that a warning doubted, or went well without this server."""
    if doubted.key:
        return doubted in calls.received_keys
    made = [it for it in calls.reports if it.server == doubted.server and doubted.tool in ("", ANY, it.tool)]
    went_well = all(it.status is CallStatus.SUCCEEDED for it in made)
    return went_well and bool(made or (has_succeeded and not doubted.tool))


def _not_run(error: CodemodeError) -> tuple[ExecutionStatus, Outcome]:
    """The status and outcome of an execution that the host could not run or record."""
    setting = error.setting if isinstance(error, LimitExceeded) else None
    ending = Ending.LIMITED if setting else Ending.DIED
    # A stage may have an error class of its own; the model gets the documented base class.
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == CodemodeError.__module__)
    return _STATUS[ending], Outcome(ending, error=ProgramError(kind.__name__, str(error), setting=setting))


@asynccontextmanager
async def followed(
    sources: ReadSources, execution: Execution, workspace: Workspace, is_logged: Callable[[Execution], bool]
) -> AsyncGenerator[None]:
    """Around the run of a program, which sees /workspace all the time. If the program `is_logged` there, its session
    passes on all that it has read by the log, which is no change by the program. Raises `JournalUnavailable` if what
    other products' sessions have read can't be found out."""
    if not workspace.is_complete():
        workspace.make()
        await anyio.sleep(1.5 * CLOCK_SECONDS)  # else its folders would count as made by the program
    sources.begin(execution.execution_id, execution.context)
    own_change, newest = workspace.own_change(), math.inf
    try:
        yield
    finally:
        has_log = is_logged(execution)
        if sources.may_pass_on(execution.execution_id) and workspace.own_change() == own_change:
            with anyio.CancelScope(shield=True):
                newest = await anyio.to_thread.run_sync(workspace.newest_change, SESSIONS if has_log else "")
        sources.end(execution.execution_id, newest, is_logged=has_log)
