"""The names and attributes of our spans, in one place.

`gen_ai.*`, `mcp.*`, `jsonrpc.*`, `network.*`, `server.*` and `error.type` follow OpenTelemetry's conventions for GenAI
and MCP: the repository semantic-conventions-genai as of commit 0393513c (status: development), which builds on the
semantic conventions 1.41. `langfuse.*` tell Langfuse the kind of observation; `codemode.*` are our own.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer

SCOPE = "codemode-server"
"""The instrumentation scope of our spans."""
EXECUTE_TOOL = "execute_tool"
"""`gen_ai.operation.name` of a call of a tool."""

INPUT, OUTPUT = "langfuse.observation.input", "langfuse.observation.output"

_TRACER = trace.get_tracer(SCOPE)


def tracer() -> Tracer:
    """Our tracer. It makes spans that nobody sees until a provider is set, and takes that one."""
    return _TRACER


def describe(span: Span, observation: str, **attributes: str | int | float | bool | None) -> None:
    """Sets attributes (`a__b` stands for `a.b`); skips None."""
    if not span.is_recording():
        return
    known = {name.replace("__", "."): value for name, value in attributes.items() if value is not None}
    span.set_attributes({"langfuse.observation.type": observation, **known})


def observe_input(span: Span, text: str | None) -> None:
    if text is not None and span.is_recording():
        span.set_attribute(INPUT, text)


def observe_output(span: Span, text: str | None) -> None:
    if text is not None and span.is_recording():
        span.set_attribute(OUTPUT, text)


def fail(span: Span, kind: str, message: str | None = None) -> None:
    """Marks a span as failed; `message` must already be redacted."""
    if span.is_recording():
        span.set_status(Status(StatusCode.ERROR, message))
        span.set_attribute("error.type", kind)
        span.set_attribute("langfuse.observation.level", "ERROR")
        if message is not None:
            span.set_attribute("langfuse.observation.status_message", message)
