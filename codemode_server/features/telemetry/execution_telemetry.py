"""The span of each execution, and its counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from opentelemetry.trace import Span

from codemode_server.domain.executions import ExecutionKind
from codemode_server.executions.execution import Execution
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.features.telemetry import spans
from codemode_server.features.telemetry.metrics import EXECUTION_SECONDS, EXECUTIONS, Metrics
from codemode_server.sandbox.backend_selection import Sandbox
from codemode_server.support.redaction import payload


@dataclass(frozen=True, slots=True)
class ExecutionTelemetry(ExecutionLayer):
    metrics: Metrics
    sandbox: Sandbox
    traced: anyio.Event
    """Set once exporters are set up, after the handshake: a span begun before would be lost with all beneath it."""

    def is_for(self, execution: Execution) -> bool:
        return True

    @asynccontextmanager
    async def around(self, execution: Execution) -> AsyncIterator[None]:
        if not self.traced.is_set():
            await self.traced.wait()
        with spans.tracer().start_as_current_span("execution") as span:
            yield
            if span.is_recording():
                self._describe(span, execution)

    async def after(self, execution: Execution) -> None:
        kind = ExecutionKind.DIRECT_CALL if execution.direct_call else ExecutionKind.PROGRAM
        self.metrics.count(EXECUTIONS, kind.value, execution.status.value)
        self.metrics.count(EXECUTION_SECONDS, kind.value, amount=execution.milliseconds / 1e3)

    def _describe(self, span: Span, execution: Execution) -> None:
        context, outcome, calls = execution.caller, execution.outcome, execution.calls
        principal_id, session_id = context.principal.principal_id, execution.session.session_id
        error = execution.recorded_error
        spans.describe(
            span,
            "span",
            codemode__execution_id=execution.execution_id,
            codemode__isolation=execution.level.value if execution.level else "",
            codemode__isolation_shortfall=self.sandbox.shortfall or None,
            codemode__check_errors=len(execution.checked.errors) or None,
            codemode__check_warnings=len(execution.checked.warnings) or None,
            codemode__status=execution.status.value,
            codemode__calls=calls.started,
            codemode__program_ms=outcome.program_ms,
            codemode__upstream_ms=outcome.upstream_ms,
            codemode__result_tokens=sum(report.result_tokens for report in calls.reports),
            langfuse__session__id=session_id,
            langfuse__user__id=principal_id,
            session__id=session_id,
            user__id=principal_id,
        )
        spans.observe_input(span, execution.recorded_code)
        spans.observe_output(span, payload(outcome.value, context.config.payloads, context.redactor))
        if error is not None:
            spans.fail(span, execution.status.value, error)
