"""The spans of requests to one upstream: mcp makes them, and this names and completes them as the conventions say.

mcp 2.3 calls a span `MCP send tools/call NAME` and knows neither the protocol nor the transport. It also writes the
trace context into `_meta` of each request; without `tracing.mcp`, that is taken out before the request is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from opentelemetry import propagate, trace
from opentelemetry.trace import Span

from codemode_server.config.live import LiveConfig
from codemode_server.settings import ServerSettings
from codemode_server.telemetry import spans
from codemode_server.upstreams.transports.registry import transport_of

_TARGETS = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""The methods that name what they are about, and the attribute for that name."""


class RequestSpans:
    """The spans of requests in flight, by the id of the request."""

    def __init__(self, server: Mapping[str, str | int], *, is_traced: Callable[[], bool]) -> None:
        """`server` are attributes of every request: how and where the upstream is reached."""
        self._server = server
        self._is_traced = is_traced
        self._open: WeakValueDictionary[str, Span] = WeakValueDictionary()
        """mcp holds a span until its request has ended, also one that is never answered."""

    @classmethod
    def to_server(cls, settings: ServerSettings, config: LiveConfig) -> RequestSpans:
        """Those of requests to the server with these settings."""
        server = transport_of(settings).span_attributes(settings)
        return cls(server, is_traced=lambda: config.settings.tracing.mcp)

    def begin(self, request_id: str, method: str, params: dict[str, Any] | None, protocol: str | None) -> None:
        """A request is about to be sent, in the context of its span."""
        if not self._is_traced():
            _take_out_context(params)
            return
        span = trace.get_current_span()
        if not span.is_recording():
            return
        attribute = _TARGETS.get(method)
        target = (params or {}).get("name") if attribute else None
        span.update_name(f"{method} {target}" if target else method)
        about: dict[str, str | int] = {**self._server, "mcp.method.name": method}
        if attribute and target:
            about[attribute] = str(target)
        if method == "tools/call":
            about["gen_ai.operation.name"] = spans.EXECUTE_TOOL
        if protocol is not None:
            about["mcp.protocol.version"] = protocol
        span.set_attributes(about)
        self._open[request_id] = span

    def answered(self, request_id: str, result: Any) -> None:
        """The answer is there; the span ends after this. An error of the protocol is mcp's to note."""
        span = self._open.pop(request_id, None)
        if span is not None and isinstance(result, dict) and result.get("isError") is True:
            spans.fail(span, spans.TOOL_ERROR)


def _take_out_context(params: dict[str, Any] | None) -> None:
    meta = params.get("_meta") if params else None
    if isinstance(meta, dict):
        for name in propagate.get_global_textmap().fields:
            meta.pop(name, None)
