"""Span processors: masks the configured secrets in every span of this process, then queues it for an exporter.

Our own spans contain none, but the mcp package creates spans too, with unredacted error messages of upstreams. If
values must not be recorded, or personal data is protected, those messages are removed completely, since they may
contain some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Status

from codemode_server.config.live import LiveConfig
from codemode_server.features.telemetry import spans

_DELAY_MILLISECONDS = 1_000
"""How long a span waits for others, so that one request takes many."""


class Redacting(SpanProcessor):
    """Must be added before the exporting processors: they receive the same span, in order."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    def on_end(self, span: ReadableSpan) -> None:
        # There is no public API to change a finished span.
        is_ours = span.instrumentation_scope is not None and span.instrumentation_scope.name == spans.SCOPE
        may_have_values = self._config.payloads == "all" and not self._config.protects_data
        if not is_ours and not may_have_values:
            span._events, span._status = [], Status(span._status.status_code)
        # A plain mapping: the SDK's own takes a lock for each item.
        span._attributes = cast("dict[str, Any]", span._attributes or {}).copy()
        text, whole = self._config.redactor.text, "\n".join(_texts(span))
        if text(whole) is whole:  # as in nearly all; one search is faster than many
            return
        span._name = text(span._name)
        span._attributes = _redacted(span._attributes, text)
        span._events = [Event(text(it.name), _redacted(it.attributes, text), it.timestamp) for it in span._events]
        span._status = Status(span._status.status_code, text(span._status.description or "") or None)


class Exporting(BatchSpanProcessor):
    """The SDK's queue and thread in front of one exporter, for the spans that are to be exported."""

    def __init__(self, exporter: SpanExporter, is_exported: Callable[[ReadableSpan], bool]) -> None:
        super().__init__(exporter, schedule_delay_millis=_DELAY_MILLISECONDS)
        self._is_exported = is_exported

    def on_end(self, span: ReadableSpan) -> None:
        if self._is_exported(span):
            super().on_end(span)


def _texts(span: ReadableSpan) -> Iterator[str]:
    """Every text that can hold a secret."""
    yield span._name
    yield span._status.description or ""
    yield from _strings(span._attributes or {})
    for event in span._events:
        yield event.name
        yield from _strings(event.attributes or {})


def _strings(attributes: Mapping[str, Any]) -> Iterator[str]:
    for value in attributes.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple | list):
            yield from (item for item in value if isinstance(item, str))


def _redacted(attributes: Mapping[str, Any] | None, text: Callable[[str], str]) -> dict[str, Any]:
    return {name: _value(value, text) for name, value in (attributes or {}).items()}


def _value(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    return tuple(_value(item, text) for item in value) if isinstance(value, tuple | list) else value
