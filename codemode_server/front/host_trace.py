"""The trace of a request: continues the host's.

mcp makes the span of a request, as a child of the `traceparent` in its `_meta`. Here the HTTP header takes its place
where `_meta` has none, and the host's `baggage`, which mcp drops, is carried on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from opentelemetry import context, propagate
from opentelemetry.context import Context


async def continue_host_trace(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware outside mcp's span: makes the host's span the current one, so that it is the parent."""
    of_http = _extracted(_headers(ctx), context.get_current())
    token = context.attach(_extracted(ctx.meta, of_http))
    try:
        return await call_next(ctx)
    finally:
        context.detach(token)


def _headers(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, str] | None:
    return None if ctx.request is None else ctx.request.headers


def _extracted(carrier: Mapping[str, Any] | None, before: Context) -> Context:
    """The context in a carrier that anyone may have written, on top of another."""
    try:
        return propagate.extract(carrier, before) if carrier else before
    except (ValueError, TypeError):
        return before
