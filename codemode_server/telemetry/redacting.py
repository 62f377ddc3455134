"""Removes the configured secrets from every span of this process before it is exported.

Our own spans contain none, but the mcp package creates spans too, with unredacted error messages of upstreams. If
values must not be recorded, those messages are removed completely, since they may contain some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.trace import Status

from codemode_server.config.live import LiveConfig
from codemode_server.telemetry import spans


class Redacting(SpanProcessor):
    """Must be added before the exporting processors: they receive the same span, in order."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    def on_end(self, span: ReadableSpan) -> None:
        text = self._config.redactor_of_all.text
        # There is no public API to change a finished span.
        span._name = text(span._name)
        span._attributes = _redacted(span._attributes, text)
        is_ours = span.instrumentation_scope is not None and span.instrumentation_scope.name == spans.SCOPE
        if is_ours or self._config.payloads == "all":
            span._events = [Event(text(it.name), _redacted(it.attributes, text), it.timestamp) for it in span._events]
            description = text(span._status.description or "") or None
        else:
            span._events, description = [], None
        span._status = Status(span._status.status_code, description)


def _redacted(attributes: Mapping[str, Any] | None, text: Callable[[str], str]) -> dict[str, Any]:
    return {name: _value(value, text) for name, value in (attributes or {}).items()}


def _value(value: Any, text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return text(value)
    return tuple(_value(item, text) for item in value) if isinstance(value, tuple | list) else value
