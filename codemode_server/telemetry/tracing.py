"""Sets up OpenTelemetry's SDK with the configured exporters, and flushes them at the end.

Langfuse is an OTLP collector with its own address and headers.
"""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codemode_server.config.live import LiveConfig
from codemode_server.settings import TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 1.0
_EXPORT_SECONDS = 5.0
"""For one batch, with all its retries."""
_LANGFUSE_CLOUD = "https://cloud.langfuse.com"
_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Tracing:
    """The exporters of one product. Failures are logged, never raised."""

    def __init__(self, config: LiveConfig | None = None) -> None:
        self._config = config or LiveConfig()
        self._processors: list[SpanProcessor] = []

    def start(self, settings: TracingSettings, environment: Mapping[str, str] = os.environ) -> list[str]:
        """Sets up the configured exporters and returns their names.

        Imports the SDK, so call it off the event loop and after the handshake.
        """
        exporters: dict[str, dict[str, Any]] = {}
        is_asked_for = any(map(environment.get, _OTLP_VARIABLES)) and environment.get("OTEL_TRACES_EXPORTER") != "none"
        if settings.otlp_endpoint or is_asked_for:
            exporters["otlp"] = {"endpoint": settings.otlp_endpoint}
        if langfuse := _langfuse_arguments(settings, environment):
            exporters["langfuse"] = langfuse
        if not exporters:
            return []
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from codemode_server.telemetry.processors import Exporting, Redacting

        provider = _provider(settings.service_name)
        provider.add_span_processor(Redacting(self._config))  # before any exporter
        for arguments in exporters.values():
            processor = Exporting(OTLPSpanExporter(**arguments, timeout=_EXPORT_SECONDS), self._is_exported)
            provider.add_span_processor(processor)
            self._processors.append(processor)
        return list(exporters)

    def shutdown(self, *others: Callable[[], object]) -> None:
        """Sends queued spans and ends `others`, within a second: hosts kill a server that takes longer than two seconds
        to end."""
        ends = [*(processor.shutdown for processor in self._processors), *others]
        _run_all(ends, time.monotonic() + _SHUTDOWN_SECONDS)
        self._processors.clear()

    def _is_exported(self, span: ReadableSpan) -> bool:
        """True, except for requests to servers, which mcp's client traces, with `tracing.mcp: false`."""
        if self._config.settings.tracing.mcp:
            return True
        from opentelemetry.trace import SpanKind

        scope = span.instrumentation_scope
        return scope is None or scope.name != "mcp-python-sdk" or span.kind is not SpanKind.CLIENT


def _run_all(actions: Sequence[Callable[[], object]], until: float) -> None:
    """Runs all at once, and waits for them until this time."""
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
    """The tracer provider of the process, created if there is none."""
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


def _langfuse_arguments(settings: TracingSettings, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Address and headers of Langfuse (https://langfuse.com/integrations/native/opentelemetry); None without keys."""
    given = settings.langfuse
    public = given.public_key or environment.get("LANGFUSE_PUBLIC_KEY")
    secret = given.secret_key or environment.get("LANGFUSE_SECRET_KEY")
    if not public or not secret:
        return None
    base_url = given.base_url or environment.get("LANGFUSE_BASE_URL") or environment.get("LANGFUSE_HOST")
    return {
        "endpoint": f"{(base_url or _LANGFUSE_CLOUD).rstrip('/')}/api/public/otel/v1/traces",
        "headers": {
            "Authorization": f"Basic {base64.b64encode(f'{public}:{secret}'.encode()).decode()}",
            "x-langfuse-ingestion-version": "4",
        },
    }
