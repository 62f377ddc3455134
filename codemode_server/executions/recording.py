"""Records executions: their spans, and their rows in the journal and the audit."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Span

from codemode_server.calls.audit import MAX_CODE_CHARACTERS, MAX_ERROR_CHARACTERS, AuditEvent, AuditEventKind
from codemode_server.config.live import LiveConfig
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.executions.execution import Execution
from codemode_server.features.dry_run.plan_report import PlanReport, plan_report
from codemode_server.features.telemetry import spans
from codemode_server.sandbox.contract import ProgramError
from codemode_server.support.off_loop import run_large
from codemode_server.support.redaction import Redactor, payload, recorded_text

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_audit import SqliteAudit
    from codemode_server.storage.sqlite_journal import SqliteJournal


@dataclass(slots=True)
class ExecutionRecorder:
    """Writes of code, values and errors what `state.payloads` allows; only the journal has the complete code."""

    journal: SqliteJournal
    audit: SqliteAudit
    config: LiveConfig

    async def begin(self, execution: Execution, span: Span, isolation_shortfall: str) -> None:
        """Record the start; raises `JournalUnavailable` if that fails, and then the program must not run."""
        execution.is_recorded = True
        redactor = execution.context.redactor
        code = None if execution.direct_call else code_as_configured(execution.code, self.config, redactor)
        level = execution.level.value if execution.level else ""
        spans.describe(
            span,
            "span",
            codemode__execution_id=execution.execution_id,
            codemode__isolation=level,
            codemode__isolation_shortfall=isolation_shortfall or None,
            langfuse__session__id=execution.session.session_id,
            langfuse__user__id=execution.context.principal.principal_id,
            session__id=execution.session.session_id,
            user__id=execution.context.principal.principal_id,
        )
        spans.observe_input(span, code)
        # First the audit, which only queues it: both rows are then written in one transaction.
        kind = AuditEventKind.EXECUTION_RESUMED if execution.is_rerun else AuditEventKind.EXECUTION_STARTED
        said = recorded_text(execution.description, redactor, MAX_ERROR_CHARACTERS)
        reason = said if said and self.config.payloads == "all" else None
        self._append(kind, execution, payload=code, level=level, reason=reason)
        if execution.is_rerun:  # the journal has it
            return
        # Without what repeats it, a replay can't be resumed: then it would send what it has not sent.
        is_replay = execution.calls.resumed is not None and execution.calls.resumed.is_closed
        repeat = None if execution.direct_call or is_replay else execution.repeat
        await self.journal.begin_execution(execution.record(), repeat=repeat)

    async def plan(self, execution: Execution) -> PlanReport:
        """Plan that a dry run recorded; raises `JournalUnavailable` if it can't be read."""
        records = await self.journal.calls(execution.context.principal, execution.execution_id)
        return await run_large(plan_report, records, execution.code, execution.context.redactor)

    async def end(self, execution: Execution, span: Span) -> None:
        """Record the end; raises `JournalUnavailable` if that fails."""
        outcome, calls = execution.outcome, execution.calls
        error = self._error(outcome.error, execution) if outcome.error else None
        if execution.status is ExecutionStatus.CANCELLED:
            error = "cancelled"
        spans.describe(
            span,
            "span",
            codemode__status=execution.status.value,
            codemode__calls=calls.started,
            codemode__program_ms=outcome.program_ms,
            codemode__upstream_ms=outcome.upstream_ms,
            codemode__result_tokens=sum(report.result_tokens for report in calls.reports),
        )
        spans.observe_output(span, payload(outcome.value, self.config.payloads, execution.context.redactor))
        if error is not None:
            spans.fail(span, execution.status.value, error)
        if execution.is_recorded:
            milliseconds, status = execution.milliseconds, execution.status
            self._append(
                AuditEventKind.EXECUTION_ENDED, execution, status=status.value, milliseconds=milliseconds, error=error
            )
            await self.journal.end_execution(
                execution.execution_id,
                status,
                error=error,
                calls=calls.started,
                milliseconds=milliseconds,
            )

    def _append(self, kind: AuditEventKind, execution: Execution, **more: Any) -> None:
        principal, session_id = execution.context.principal, execution.session.session_id
        self.audit.append(AuditEvent(kind, principal, session_id, execution.execution_id, time.time(), **more))

    def _error(self, error: ProgramError, execution: Execution) -> str:
        """A message may hold values, so it is recorded only where values are."""
        # Even the type is a name that the program chose.
        text = f"{error.type}: {error.message}" if self.config.payloads == "all" else error.setting or error.type
        text += f" (line {error.line})" if error.line is not None and error.setting is None else ""
        return recorded_text(text, execution.context.redactor, MAX_ERROR_CHARACTERS)


def code_as_configured(code: str, config: LiveConfig, redactor: Redactor | None = None) -> str | None:
    """A program as `state.payloads` lets it be recorded and shown; `redactor` is used in place of the default one."""
    if config.payloads == "all":
        return recorded_text(code, redactor or config.redactor, MAX_CODE_CHARACTERS)
    digest = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    return f"sha256 {digest}, {len(code)} characters" if config.payloads == "shapes" else None
