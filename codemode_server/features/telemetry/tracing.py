"""Sets up OpenTelemetry's SDK with the configured exporters, and flushes them at the end.

Langfuse gets them by its own client, or without the package `langfuse` (an extra) as an OTLP collector.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from codemode_server.config.live import LiveConfig
from codemode_server.features.telemetry.settings import TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 1.0
_EXPORT_SECONDS = 5
"""For one batch, with all its retries."""
_LANGFUSE_CLOUD = "https://cloud.langfuse.com"
_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Tracing:
    """The exporters of one product. Failures are logged, never raised."""

    def __init__(self, config: LiveConfig | None = None) -> None:
        self._config = config or LiveConfig()
        self._ends: list[Callable[[], object]] = []

    def start(self, settings: TracingSettings, environment: Mapping[str, str] = os.environ) -> list[str]:
        """Sets up the configured exporters and returns their names. Imports the SDK, so call it off the event loop and
        after the handshake."""
        names: list[str] = []
        is_asked_for = any(map(environment.get, _OTLP_VARIABLES)) and environment.get("OTEL_TRACES_EXPORTER") != "none"
        if settings.otlp_endpoint or is_asked_for:
            names.append("otlp")
        if keys := _langfuse_keys(settings, environment):
            names.append("langfuse")
        if names:
            from codemode_server.features.telemetry.processors import Redacting

            _provider(settings.service_name).add_span_processor(Redacting(self._config))  # before any exporter
        if "otlp" in names:
            self._start_otlp(settings, endpoint=settings.otlp_endpoint)
        if keys:
            self._start_langfuse(settings, keys)
        return names

    def _start_otlp(
        self, settings: TracingSettings, endpoint: str | None, headers: dict[str, str] | None = None
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from codemode_server.features.telemetry.processors import Exporting

        exporter = OTLPSpanExporter(endpoint=endpoint, headers=headers, timeout=_EXPORT_SECONDS)
        processor = Exporting(exporter, self._is_exported)
        _provider(settings.service_name).add_span_processor(processor)
        self._ends.append(processor.shutdown)

    def _start_langfuse(self, settings: TracingSettings, keys: _LangfuseKeys) -> None:
        try:
            from langfuse import Langfuse
        except ImportError:  # https://langfuse.com/integrations/native/opentelemetry
            authorization = base64.b64encode(f"{keys['public_key']}:{keys['secret_key']}".encode()).decode()
            headers = {"Authorization": f"Basic {authorization}", "x-langfuse-ingestion-version": "4"}
            self._start_otlp(settings, f"{keys['base_url']}/api/public/otel/v1/traces", headers)
        else:
            # Its default filter drops the client spans of mcp, which are the parents of spans that upstreams send.
            client = Langfuse(**keys, timeout=_EXPORT_SECONDS, should_export_span=self._is_exported)
            self._ends.append(client.shutdown)

    def shutdown(self, *others: Callable[[], object]) -> None:
        """Sends queued spans and ends `others`, within a second: hosts kill a server that takes longer than two seconds
        to end."""
        _run_all([*self._ends, *others], time.monotonic() + _SHUTDOWN_SECONDS)
        self._ends.clear()

    def _is_exported(self, span: ReadableSpan) -> bool:
        """True, except for requests to servers, which mcp's client traces, with `tracing.mcp: false`."""
        if TracingSettings.of(self._config.settings).mcp:
            return True
        from opentelemetry.trace import SpanKind

        scope = span.instrumentation_scope
        return scope is None or scope.name != "mcp-python-sdk" or span.kind is not SpanKind.CLIENT


def _run_all(actions: Sequence[Callable[[], object]], until: float) -> None:
    threads = [threading.Thread(target=_logged, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _logged(action: Callable[[], object]) -> None:
    try:
        action()
    except Exception:  # a failure of telemetry must not affect the product
        logger.exception("an exporter of traces did not shut down")


def _provider(service_name: str) -> Any:
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    current = trace.get_tracer_provider()
    if isinstance(current, TracerProvider):
        return current
    # At exit the SDK would wait 30 seconds for a collector that does not answer.
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}), shutdown_on_exit=False)
    trace.set_tracer_provider(provider)
    return provider


class _LangfuseKeys(TypedDict):
    public_key: str
    secret_key: str
    base_url: str


def _langfuse_keys(settings: TracingSettings, environment: Mapping[str, str]) -> _LangfuseKeys | None:
    given = settings.langfuse
    public = given.public_key or environment.get("LANGFUSE_PUBLIC_KEY")
    secret = given.secret_key or environment.get("LANGFUSE_SECRET_KEY")
    if not public or not secret:
        return None
    base_url = given.base_url or environment.get("LANGFUSE_BASE_URL") or environment.get("LANGFUSE_HOST")
    return {"public_key": public, "secret_key": secret, "base_url": (base_url or _LANGFUSE_CLOUD).rstrip("/")}
