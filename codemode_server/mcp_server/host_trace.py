"""The host's trace, which a request continues."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from opentelemetry import context as trace_context
from opentelemetry import propagate

_TRACE_FIELDS = propagate.get_global_textmap().fields


async def continue_host_trace(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware outside mcp's span, which mcp makes a child of the `traceparent` in `_meta`: the HTTP header takes its
    place where `_meta` has none, and the host's `baggage`, which mcp drops, is carried on."""
    before = context = trace_context.get_current()
    for carrier in (ctx.request.headers if ctx.request is not None else None, ctx.meta):
        if carrier and not _TRACE_FIELDS.isdisjoint(carrier):
            with suppress(ValueError, TypeError):  # anyone may have written it
                context = propagate.extract(carrier, context)
    if context is before:
        return await call_next(ctx)
    token = trace_context.attach(context)
    try:
        return await call_next(ctx)
    finally:
        trace_context.detach(token)
