"""Sets up OpenTelemetry's SDK with the configured exporters, and flushes them at the end."""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from codemode_server.config.live import LiveConfig
from codemode_server.extras import install_command
from codemode_server.settings import TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from codemode_server.telemetry.failure_reasons import NotingSession
    from codemode_server.telemetry.span_queue import SpanQueue

logger = logging.getLogger(__name__)

_EXPORTER = "OTEL_TRACES_EXPORTER"
_SHUTDOWN_SECONDS = 1.0
_EXPORT_SECONDS = 5.0
"""For one batch, with all its retries."""
_LANGFUSE_CLOUD = "https://cloud.langfuse.com"
_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Tracing:
    """The exporters of one product. Failures are logged, never raised."""

    def __init__(
        self,
        config: LiveConfig | None = None,
        on_drop: Callable[[str, Mapping[str, int]], None] = lambda _name, _dropped: None,
    ) -> None:
        """`on_drop` is told by exporter and reason how many spans were dropped, in a thread."""
        self._config = config or LiveConfig()
        self._on_drop = on_drop
        self._shutdowns: list[Callable[[], object]] = []
        self._queues: list[SpanQueue] = []

    @property
    def dropped(self) -> Mapping[tuple[str, ...], int]:
        """How many spans were dropped, by exporter and reason."""
        return {(queue.name, reason): count for queue in self._queues for reason, count in queue.dropped.items()}

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
        is_asked_for = any(map(environment.get, _OTLP_VARIABLES)) and environment.get(_EXPORTER) != "none"
        if settings.otlp_endpoint or is_asked_for:
            names.append("otlp")
        langfuse = _langfuse_arguments(settings, environment)
        if names or langfuse is not None:
            self._start_redacting(settings)  # before any exporter
        if names:
            self._start_otlp(settings)
        if langfuse is not None and self._start_langfuse(langfuse, langfuse_exporter):
            names.append("langfuse")
        return names

    def shutdown(self, *others: Callable[[], object]) -> None:
        """Sends queued spans and ends `others`, within a second: hosts kill a server that takes longer than two seconds
        to end."""
        until = time.monotonic() + _SHUTDOWN_SECONDS
        _all_until([*self._shutdowns, *others], until - _SHUTDOWN_SECONDS / 2)
        _all_until([partial(queue.end, max(0.0, until - time.monotonic())) for queue in self._queues], until + 0.1)
        self._shutdowns.clear()

    def _start_redacting(self, settings: TracingSettings) -> None:
        from codemode_server.telemetry.redacting import Redacting

        _provider(settings.service_name).add_span_processor(Redacting(self._config))

    def _start_otlp(self, settings: TracingSettings) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from codemode_server.telemetry.failure_reasons import NotingSession
        from codemode_server.telemetry.span_queue import QueueProcessor, SpanQueue

        session = NotingSession()
        exporter = OTLPSpanExporter(endpoint=settings.otlp_endpoint, timeout=_EXPORT_SECONDS, session=session)
        queue = SpanQueue("otlp", exporter, session.reason, on_drop=self._on_drop)
        self._queues.append(queue)
        _provider(settings.service_name).add_span_processor(QueueProcessor(queue, self._is_exported))

    def _start_langfuse(self, arguments: _LangfuseArguments, exporter: SpanExporter | None) -> bool:
        try:
            from langfuse import Langfuse
        except ImportError:
            logger.warning("Langfuse keys are set, but the extra is not installed: %s", install_command("langfuse"))
            return False
        from codemode_server.telemetry.failure_reasons import NotingSession
        from codemode_server.telemetry.span_queue import QueueExporter, SpanQueue

        session = NotingSession()
        exporter = exporter or _langfuse_exporter(arguments, session)
        queue = SpanQueue("langfuse", exporter, session.reason, on_drop=self._on_drop)
        self._queues.append(queue)
        # Its default filter drops the client spans of mcp, which are the parents of spans that upstreams send.
        client = Langfuse(**arguments, span_exporter=QueueExporter(queue), should_export_span=self._is_exported)
        self._shutdowns.append(client.shutdown)
        return True

    def _is_exported(self, span: ReadableSpan) -> bool:
        if self._config.settings.tracing.mcp:
            return True
        from codemode_server.telemetry.span_queue import is_request_to_upstream

        return not is_request_to_upstream(span)


def _all_until(actions: Sequence[Callable[[], object]], until: float) -> None:
    """Do all at once, and wait for them until this time."""
    threads = [threading.Thread(target=_logged, args=(end,), daemon=True) for end in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


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


class _LangfuseArguments(TypedDict):
    public_key: str
    secret_key: str
    base_url: str


def _langfuse_exporter(arguments: _LangfuseArguments, session: NotingSession) -> SpanExporter:
    """What Langfuse would make, but for the session."""
    from langfuse import __version__
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    keys = f"{arguments['public_key']}:{arguments['secret_key']}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(keys).decode()}",
        "x-langfuse-sdk-name": "python",
        "x-langfuse-sdk-version": __version__,
        "x-langfuse-public-key": arguments["public_key"],
        "x-langfuse-ingestion-version": "4",
    }
    endpoint = f"{arguments['base_url'].rstrip('/')}/api/public/otel/v1/traces"
    return OTLPSpanExporter(
        endpoint=endpoint, headers=headers, timeout=_EXPORT_SECONDS, compression=Compression.Gzip, session=session
    )


def _langfuse_arguments(settings: TracingSettings, environment: Mapping[str, str]) -> _LangfuseArguments | None:
    given = settings.langfuse
    public = given.public_key or environment.get("LANGFUSE_PUBLIC_KEY")
    secret = given.secret_key or environment.get("LANGFUSE_SECRET_KEY")
    if not public or not secret:
        return None
    base_url = given.base_url or environment.get("LANGFUSE_BASE_URL") or environment.get("LANGFUSE_HOST")
    return {"public_key": public, "secret_key": secret, "base_url": base_url or _LANGFUSE_CLOUD}
