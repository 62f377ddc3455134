"""The span of each call. Subscribes to the pipeline's events."""

from __future__ import annotations

from contextvars import Token

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from codemode_server.gateway.events import CallBegan, CallEnded, CallEvent
from codemode_server.gateway.targets import title_of
from codemode_server.telemetry import spans


class CallTracing:
    """Makes the call's span the current one, so that what the connection sends carries its trace context."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], tuple[Span, Token[Context]]] = {}

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallBegan():
                self._begin(event)
            case CallEnded():
                self._end(event)
            case _:
                pass

    def _begin(self, event: CallBegan) -> None:
        call, target = event.call, event.target
        span = spans.tracer().start_span(f"call {title_of(target)}")
        self._open[call.execution_id, call.seq] = span, context.attach(trace.set_span_in_context(span))
        spans.describe(
            span,
            "tool",
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=call.tool,
            codemode__server=call.server,
            codemode__execution_id=call.execution_id,
            codemode__seq=call.seq,
            codemode__effect=target.effect.value,
            codemode__decision=event.decision.kind,
            codemode__decision_reason=event.decision.reason,
        )
        spans.observe_input(span, event.arguments)

    def _end(self, event: CallEnded) -> None:
        span, token = self._open.pop((event.call.execution_id, event.call.seq))
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
