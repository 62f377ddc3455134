"""Whether anybody collects traces, and the traces of what no program asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context, trace


def has_trace_provider() -> bool:
    """False as long as no provider of traces is set: spans would be made for nobody, and change no context."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def span_around(name: str, *, is_wanted: bool = True, **attributes: str) -> Iterator[None]:
    """Have what is sent within, also by tasks that are started there, below one span, if anybody collects traces.
    `a__b` stands for the attribute `a.b`."""
    if not is_wanted or not has_trace_provider():
        yield
        return
    with trace.get_tracer("codemode-server").start_as_current_span(
        name,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
        record_exception=False,  # its message may hold values
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_status(trace.StatusCode.ERROR)
            span.set_attribute("error.type", type(error).__name__)
            raise


def leave_trace() -> None:
    """What this task does from now on belongs to no trace so far."""
    context.attach(context.Context())
