"""The life of an execution: its turn, its run in the sandbox, its settled record."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from opentelemetry.trace import Span

from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import (
    CodemodeError,
    LedgerUnavailable,
    LimitExceeded,
    SandboxFailed,
    SandboxUnavailable,
)
from codemode_server.domain.executions import ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.principals import Session
from codemode_server.executions.artifacts import LARGE_BYTES, ArtifactStore, Item, NotStored
from codemode_server.executions.attachments import ShownFile
from codemode_server.executions.preflight.preflight import Checked
from codemode_server.executions.scheduling import QueuePlace, Turns
from codemode_server.executions.workspace import Workspace
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.ledger import MAX_CODE_CHARACTERS, MAX_ERROR_CHARACTERS, ExecutionStart, Ledger
from codemode_server.redaction import kept_text, payload
from codemode_server.sandbox.backend_selection import Sandbox
from codemode_server.sandbox.contract import Ending, HostApi, Limits, Outcome, Program, ProgramError
from codemode_server.search.usage_stats import UsageStats
from codemode_server.search.usage_store import ToolName
from codemode_server.settings import LimitSettings
from codemode_server.telemetry import spans
from codemode_server.tokens import estimate_tokens

logger = logging.getLogger(__name__)

_LONG = 2_000
"""Characters; shorter output is always shown whole."""
_STATUS = {
    Ending.RETURNED: ExecutionStatus.SUCCEEDED,
    Ending.RAISED: ExecutionStatus.FAILED,
    Ending.LIMITED: ExecutionStatus.LIMITED,
    Ending.DIED: ExecutionStatus.CRASHED,
}


class Phase(StrEnum):
    """Phase of an execution."""

    ACCEPTED = "accepted"
    QUEUED = "queued"  # waits until fewer than `limits.programs` run
    PREPARING = "preparing"  # the sandbox backend is not ready yet
    CHECKING = "checking"
    RUNNING = "running"  # handed to the backend; its code runs once `Execution.begun` is set


@dataclass(slots=True)
class Execution:
    """One program on its way. `done` is set once it is settled; from then on nothing of it changes."""

    execution_id: ExecutionId
    code: str
    context: RequestContext
    limits: Limits
    calls: ExecutionCalls
    status: ExecutionStatus = ExecutionStatus.RUNNING
    phase: Phase = Phase.ACCEPTED
    queue: QueuePlace = field(default_factory=lambda: QueuePlace(1, 1, 0))
    """Kept up to date while it is queued."""
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when a sandbox begins to run it."""
    outcome: Outcome = field(default_factory=lambda: Outcome(Ending.DIED))
    level: IsolationLevel | None = None
    """None if it never got into a sandbox."""
    warnings: list[str] = field(default_factory=list)
    """What is doubtful about the program, a line each; told to the model beside the result."""
    shown: list[ShownFile] = field(default_factory=list)
    """What it showed to the model, in order."""
    kept: dict[str, Item | str] = field(default_factory=dict)
    """What is kept of its `value` and `stdout`, or why nothing is."""
    milliseconds: float = 0.0
    """From its request to its settlement, the wait for its turn included."""
    done: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def session(self) -> Session:
        return self.context.session

    def cancel(self) -> None:
        """End the program and its calls in flight; `done` follows."""
        self.scope.cancel()


class Executor:
    """Runs programs, `limits.programs` at once; use as an async context manager, which ends those still running."""

    def __init__(
        self,
        *,
        traced: Callable[[], Awaitable[object]],
        check: Callable[[str, frozenset[str] | None, str], Awaitable[Checked]],
        sandbox: Sandbox,
        door: Callable[[Execution], HostApi],
        kept: ArtifactStore,
        habits: UsageStats,
        ledger: Ledger,
        workspace: Workspace,
        config: LiveConfig,
    ) -> None:
        self._traced = traced
        self._check = check
        self._sandbox = sandbox
        self._door = door
        self._kept = kept
        self._habits = habits
        self._ledger = ledger
        self._workspace = workspace
        self._config = config
        self._turns = Turns()
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Executor]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield self
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    def start(self, code: str, context: RequestContext, *, timeout_s: float | None = None) -> Execution:
        """Start a program; gives it at once. `timeout_s` takes the place of `limits.wall_seconds`."""
        if self._tasks is None:
            raise SandboxUnavailable("codemode-server is shutting down")
        execution_id = ExecutionId("x" + secrets.token_hex(6))
        limits = _limits(self._config.settings.limits, timeout_s)
        execution = Execution(execution_id, code, context, limits, ExecutionCalls(execution_id, context))
        self._tasks.start_soon(self._live, execution, name=execution_id)
        return execution

    async def _live(self, execution: Execution) -> None:
        try:
            # Exporters are set up after the handshake; a span begun before that would be lost with all beneath it.
            await self._traced()
            with spans.tracer().start_as_current_span("execution") as span:
                await self._traced_life(execution, span)
        finally:
            execution.done.set()

    async def _traced_life(self, execution: Execution, span: Span) -> None:
        """From its turn to its settled record; nothing that a program does is raised from here."""
        started = time.perf_counter()
        try:
            with execution.scope:
                turn = self._turns.turn(
                    execution.session,
                    self._config.settings.limits,
                    on_wait=partial(setattr, execution, "phase", Phase.QUEUED),
                    on_place=partial(setattr, execution, "queue"),
                )
                async with turn:
                    await self._run(execution, span)
            if execution.scope.cancelled_caught:
                execution.status = ExecutionStatus.CANCELLED
        except CodemodeError as error:
            execution.status, execution.outcome = _not_run(error)
        except anyio.get_cancelled_exc_class():
            execution.status = ExecutionStatus.CANCELLED
            raise
        except Exception:  # a fault of ours ends this execution, not the others
            logger.exception("execution %s failed on our side", execution.execution_id)
            execution.status, execution.outcome = _not_run(SandboxFailed("internal error; the log has the details"))
        finally:
            execution.milliseconds = (time.perf_counter() - started) * 1e3
            self._settle(execution, span)

    async def _run(self, execution: Execution, span: Span) -> None:
        session, principal = execution.session, execution.context.principal.principal_id
        execution.phase = Phase.PREPARING
        backend = await self._sandbox.ready()
        execution.level = backend.level
        kept = self._kept_code(execution.code)
        spans.describe(
            span,
            "span",
            codemode__execution_id=execution.execution_id,
            codemode__isolation=backend.level.value,
            codemode__isolation_shortfall=self._sandbox.shortfall or None,
            session__id=session.session_id,
            user__id=principal,
        )
        spans.observe_input(span, kept)
        self._ledger.record_execution_started(
            ExecutionStart(execution.execution_id, session.session_id, principal, backend.level.value, kept)
        )
        execution.phase = Phase.CHECKING
        checked = await self._check(execution.code, backend.importable, self._kept.last_value(session))
        spans.describe(
            span,
            "span",
            codemode__check_errors=len(checked.errors) or None,
            codemode__check_warnings=len(checked.warnings) or None,
        )
        if checked.errors:
            execution.warnings += checked.warning_lines()
            error = ProgramError("CheckFailed", checked.message, line=checked.errors[0].line)
            execution.status, execution.outcome = ExecutionStatus.FAILED, Outcome(Ending.RAISED, error=error)
            return
        program = Program(
            execution.execution_id,
            execution.code,
            execution.limits,
            self._workspace.make(),
            session_id=session.session_id,
            is_last=session.is_ephemeral,
            begun=execution.begun,
        )
        execution.phase = Phase.RUNNING
        execution.calls.doubted_keys = checked.doubted_keys
        execution.outcome = await backend.run(program, self._door(execution))
        execution.warnings += checked.warning_lines(execution.calls.received_keys)
        execution.status = _STATUS[execution.outcome.ending]
        await self._keep(execution)

    async def _keep(self, execution: Execution) -> None:
        """Keep what it gave back and printed for later programs of its session; of a passing one, what is long."""
        outcome, least = execution.outcome, _LONG if execution.session.is_ephemeral else 0
        if outcome.value_form != "none":
            await self._keep_one(execution, "value", outcome.value, least)
        if len(outcome.stdout) > _LONG:
            await self._keep_one(execution, "stdout", outcome.stdout, least)

    async def _keep_one(
        self, execution: Execution, what: Literal["value", "stdout"], value: JsonValue, least: int
    ) -> None:
        redactor, session, name = self._config.redactor, execution.session, str(execution.execution_id)

        def keep() -> None:
            if what == "value":
                data = json.dumps(redactor.value(value), ensure_ascii=False).encode("utf-8", "replace")
                item = Item(name, "json", len(data))
            else:
                data = redactor.text(value).encode("utf-8", "replace")
                item = Item(f"{name}/stdout", "text", len(data), "text/plain")
            if len(data) >= least:
                execution.kept[what] = self._kept.keep(session, item, data)

        try:
            if _is_small(value):
                keep()
            else:
                await anyio.to_thread.run_sync(keep)
        except NotStored as error:
            execution.kept[what] = str(error)

    def _settle(self, execution: Execution, span: Span) -> None:
        outcome, calls = execution.outcome, execution.calls
        error = outcome.error
        told = self._kept_error(error) if error else None
        if execution.status is ExecutionStatus.CANCELLED:
            told = "cancelled"
        spans.describe(
            span,
            "span",
            codemode__status=execution.status.value,
            codemode__calls=calls.started,
            codemode__program_ms=outcome.program_ms,
            codemode__upstream_ms=outcome.upstream_ms,
            codemode__result_tokens=sum(report.result_tokens for report in calls.reports),
            codemode__tokens_saved=_tokens_saved(execution),
        )
        spans.observe_output(span, payload(outcome.value, self._config.payloads, self._config.redactor))
        if told is not None:
            spans.fail(span, execution.status.value, told)
        if execution.level is not None:
            try:
                self._ledger.record_execution_settled(
                    execution.execution_id, execution.status, told, calls.started, execution.milliseconds
                )
            except LedgerUnavailable as unavailable:
                execution.status, execution.outcome = _not_run(unavailable)
        answered = (report for report in calls.reports if report.status is CallStatus.SUCCEEDED)
        self._habits.used(execution.session, (ToolName(report.server, report.tool) for report in answered))

    def _kept_error(self, error: ProgramError) -> str:
        """A message may hold values, so it is kept only where values are."""
        # Even the type is a name that the program chose.
        text = f"{error.type}: {error.message}" if self._config.payloads == "all" else error.setting or error.type
        return kept_text(text, self._config.redactor, MAX_ERROR_CHARACTERS)

    def _kept_code(self, code: str) -> str | None:
        if self._config.payloads == "all":
            return kept_text(code, self._config.redactor, MAX_CODE_CHARACTERS)
        digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
        return f"sha256 {digest}, {len(code)} characters" if self._config.payloads == "shapes" else None


def _is_small(value: JsonValue) -> bool:
    """Whether it takes no time to write it down; a thread takes longer then."""
    return len(value) < LARGE_BYTES if isinstance(value, str) else not isinstance(value, list | dict)


def _limits(settings: LimitSettings, timeout_s: float | None) -> Limits:
    return Limits(
        wall_seconds=timeout_s or settings.wall_seconds,
        wall_seconds_from_argument=timeout_s is not None and timeout_s < settings.wall_seconds,
        upstream_seconds=settings.upstream_seconds,
        memory_mb=settings.memory_mb,
        output_bytes=settings.output_bytes,
        calls=settings.calls,
        calls_in_flight=settings.calls_in_flight,
        call_bytes=settings.call_bytes,
        value_bytes=settings.value_bytes,
        workspace_mb=settings.workspace_mb,
    )


def _not_run(error: CodemodeError) -> tuple[ExecutionStatus, Outcome]:
    """How an execution ended that the host could not run, or not record."""
    setting = error.setting if isinstance(error, LimitExceeded) else None
    ending = Ending.LIMITED if setting else Ending.DIED
    # A part may have a kind of its own, which is named in no documentation.
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == CodemodeError.__module__)
    return _STATUS[ending], Outcome(ending, error=ProgramError(kind.__name__, str(error), setting=setting))


def _tokens_saved(execution: Execution) -> int:
    """What the calls' results would have cost the model, less what the program gave back; an estimate."""
    outcome = execution.outcome
    given = estimate_tokens(outcome.stdout) + (estimate_tokens(str(outcome.value)) if outcome.value is not None else 0)
    return max(0, sum(report.result_tokens for report in execution.calls.reports) - given)
