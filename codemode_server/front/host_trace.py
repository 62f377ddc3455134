"""The trace of a request: continues the host's, and says which connection the request came over.

mcp makes the span of a request, as a child of the `traceparent` in its `_meta`. Here the HTTP header takes its place
where `_meta` has none, and the host's `baggage`, which mcp drops, is carried on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context

from codemode_server.domain.principals import Session


async def continue_host_trace(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware outside mcp's span: makes the host's span the current one, so that it is the parent."""
    of_http = _extracted(_headers(ctx), context.get_current())
    token = context.attach(_extracted(ctx.meta, of_http))
    try:
        return await call_next(ctx)
    finally:
        context.detach(token)


class RequestDescription:
    """Middleware inside mcp's span: adds the session and the transport, and links the span of the HTTP request."""

    def __init__(self, session_of: Callable[[ServerRequestContext[Any, Any]], Session]) -> None:
        self._session_of = session_of

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attribute("network.transport", "pipe" if ctx.request is None else "tcp")
            session = self._session_of(ctx)
            if not session.is_ephemeral:
                # The transport's own id lets whoever has it use the session.
                span.set_attribute("mcp.session.id", session.session_id)
            sent = trace.get_current_span(_extracted(_headers(ctx), Context())).get_span_context()
            if sent.is_valid and sent != _parent_of(span):
                span.add_link(sent)
        return await call_next(ctx)


def _headers(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, str] | None:
    """Those of the HTTP request; None over stdio."""
    return None if ctx.request is None else ctx.request.headers


def _extracted(carrier: Mapping[str, Any] | None, before: Context) -> Context:
    """The context in a carrier that anyone may have written, on top of another."""
    try:
        return propagate.extract(carrier, before) if carrier else before
    except (ValueError, TypeError):
        return before


def _parent_of(span: trace.Span) -> trace.SpanContext | None:
    parent: trace.SpanContext | None = getattr(span, "parent", None)
    return parent
