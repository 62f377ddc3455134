"""The names and attributes of our spans, in one place.

`gen_ai.*` and `mcp.*` follow OpenTelemetry's semantic conventions for MCP (status: development); `langfuse.*` are what
Langfuse reads to show a span as the right kind of observation; `codemode.*` are ours.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer

SCOPE = "codemode-server"
"""The instrumentation scope of our spans."""


def tracer() -> Tracer:
    """Ours; forwards to whatever provider is set by the time a span starts."""
    return trace.get_tracer(SCOPE)


def describe(span: Span, observation: str, **attributes: str | int | float | bool | None) -> None:
    """Set attributes (`a__b` for `a.b`); None is left out."""
    if not span.is_recording():
        return
    span.set_attribute("langfuse.observation.type", observation)
    for name, value in attributes.items():
        if value is not None:
            span.set_attribute(name.replace("__", "."), value)


def observe_input(span: Span, text: str | None) -> None:
    if text is not None and span.is_recording():
        span.set_attribute("langfuse.observation.input", text)


def observe_output(span: Span, text: str | None) -> None:
    if text is not None and span.is_recording():
        span.set_attribute("langfuse.observation.output", text)


def fail(span: Span, kind: str, message: str) -> None:
    """Mark a span as failed; `message` must be redacted already."""
    if span.is_recording():
        span.set_status(Status(StatusCode.ERROR, message))
        span.set_attribute("error.type", kind)
        span.set_attribute("langfuse.observation.level", "ERROR")
        span.set_attribute("langfuse.observation.status_message", message)
