"""The span of each call. Subscribes to the events of calls."""

from __future__ import annotations

from contextvars import Token

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from codemode_server.calls.events import CallBegan, CallEnded, CallEvent
from codemode_server.calls.targets import ToolTarget, title_of
from codemode_server.config.live import LiveConfig
from codemode_server.features.telemetry import spans
from codemode_server.support.trace_provider import has_trace_provider


class CallTracing:
    """Makes the call's span the current one, so that what the connection sends carries its trace context."""

    def __init__(self, config: LiveConfig) -> None:
        """Makes no spans without `tracing.mcp`."""
        self._config = config
        self._open: dict[tuple[str, int], tuple[Span, Token[Context]]] = {}

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallBegan() if self._config.sends_trace_context and has_trace_provider():
                self._begin(event)
            case CallEnded():
                self._end(event)
            case _:
                pass

    def _begin(self, event: CallBegan) -> None:
        call, target, title = event.call, event.target, title_of(event.target)
        operation = spans.EXECUTE_TOOL if isinstance(target, ToolTarget) else None
        span = spans.tracer().start_span(f"{operation or 'call'} {title}")
        self._open[call.execution_id, call.seq] = span, context.attach(trace.set_span_in_context(span))
        spans.describe(
            span,
            "tool",
            gen_ai__operation__name=operation,
            gen_ai__tool__name=title if operation else None,
            langfuse__session__id=event.calls.caller.session.session_id,
            langfuse__user__id=event.calls.caller.principal.principal_id,
            codemode__server=call.server,
            codemode__tool=call.tool,
            codemode__execution_id=call.execution_id,
            codemode__seq=call.seq,
            codemode__effect=target.effect.value,
            codemode__decision=event.decision.kind,
            codemode__decision_reason=event.decision.reason,
        )
        spans.observe_input(span, event.arguments)

    def _end(self, event: CallEnded) -> None:
        span, token = self._open.pop((event.call.execution_id, event.call.seq), (None, None))
        if span is None or token is None:
            return
        context.detach(token)
        status, result = event.outcome.status.value, event.result
        spans.describe(
            span,
            "tool",
            codemode__status=status,
            codemode__result_bytes=result.bytes,
            codemode__result_tokens=result.tokens,
        )
        spans.observe_output(span, result.payload)
        if event.recorded_error is not None:
            spans.fail(span, status, event.recorded_error)
        span.end()
