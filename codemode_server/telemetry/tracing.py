"""Sets up OpenTelemetry's SDK with the configured exporters, and flushes them at the end."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from codemode_server.config.live import LiveConfig
from codemode_server.extras import install_command
from codemode_server.settings import TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

logger = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 1.0
_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Tracing:
    """The exporters of one product. Failures are logged, never raised."""

    def __init__(self, config: LiveConfig | None = None) -> None:
        self._config = config or LiveConfig()
        self._shutdowns: list[Any] = []

    def start(
        self,
        settings: TracingSettings,
        environment: Mapping[str, str] = os.environ,
        *,
        langfuse_exporter: SpanExporter | None = None,
    ) -> list[str]:
        """Sets up the configured exporters and returns their names.

        Imports the SDK, so call it off the event loop and after the handshake. `langfuse_exporter` replaces Langfuse's
        own connection in tests.
        """
        names: list[str] = []
        if settings.otlp_endpoint or any(environment.get(name) for name in _OTLP_VARIABLES):
            names.append("otlp")
        langfuse = _langfuse_arguments(settings, environment)
        if names or langfuse is not None:
            self._start_redacting(settings)  # before any exporter
        if names:
            self._start_otlp(settings)
        if langfuse is not None and self._start_langfuse(langfuse, langfuse_exporter):
            names.append("langfuse")
        return names

    def shutdown(self) -> None:
        """Sends queued spans, within a second: hosts kill a server that takes longer than two seconds to end."""
        threads = [threading.Thread(target=_logged, args=(end,), daemon=True) for end in self._shutdowns]
        for thread in threads:
            thread.start()
        until = time.monotonic() + _SHUTDOWN_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            logger.warning("the last traces could not be sent in %g s", _SHUTDOWN_SECONDS)
        self._shutdowns.clear()

    def _start_redacting(self, settings: TracingSettings) -> None:
        from codemode_server.telemetry.redacting import Redacting

        _provider(settings.service_name).add_span_processor(Redacting(self._config))

    def _start_otlp(self, settings: TracingSettings) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = _provider(settings.service_name)
        exporter = OTLPSpanExporter(endpoint=settings.otlp_endpoint, timeout=5)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        self._shutdowns.append(lambda: provider.force_flush(3_000))

    def _start_langfuse(self, arguments: dict[str, Any], exporter: SpanExporter | None) -> bool:
        try:
            from langfuse import Langfuse
        except ImportError:
            logger.warning("Langfuse keys are set, but the extra is not installed: %s", install_command("langfuse"))
            return False
        # Its default filter drops the client spans of mcp, which are the parents of spans that upstreams send.
        client = Langfuse(**arguments, span_exporter=exporter, should_export_span=lambda _span: True)
        self._shutdowns.append(client.shutdown)
        return True


def _logged(end: Callable[[], object]) -> None:
    try:
        end()
    except Exception:  # a failure of telemetry must not affect the product
        logger.exception("an exporter of traces did not shut down")


def _provider(service_name: str) -> Any:
    """The tracer provider of the process, created if there is none (Langfuse attaches to an existing one)."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    current = trace.get_tracer_provider()
    if isinstance(current, TracerProvider):
        return current
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    trace.set_tracer_provider(provider)
    return provider


def _langfuse_arguments(settings: TracingSettings, environment: Mapping[str, str]) -> dict[str, Any] | None:
    given = settings.langfuse
    public = given.public_key or environment.get("LANGFUSE_PUBLIC_KEY")
    secret = given.secret_key or environment.get("LANGFUSE_SECRET_KEY")
    if not public or not secret:
        return None
    base_url = given.base_url or environment.get("LANGFUSE_BASE_URL") or environment.get("LANGFUSE_HOST")
    return {"public_key": public, "secret_key": secret} | ({"base_url": base_url} if base_url else {})
