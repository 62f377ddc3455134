"""Starts the exporters of a product; says where its metrics are read, and who may read them over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.calls.events import CallBegan, CallEnded, CallRetried, CallUnresolved, Subscription
from codemode_server.domain.principals import Principal
from codemode_server.features.telemetry import metrics
from codemode_server.features.telemetry.call_metrics import CallMetrics
from codemode_server.features.telemetry.call_tracing import CallTracing
from codemode_server.features.telemetry.execution_telemetry import ExecutionTelemetry
from codemode_server.features.telemetry.metrics import Instrument, Metrics, Readings
from codemode_server.features.telemetry.settings import MetricSettings, TracingSettings
from codemode_server.features.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from codemode_server.app import App

logger = logging.getLogger(__name__)


class Telemetry:
    """What observes one product, and its exporters."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.metrics = Metrics(_readings(app))
        self.tracing = Tracing(app.config)
        self._has_started = anyio.Event()
        self.call_tracing = Subscription(CallTracing(app.config), (CallBegan, CallEnded))
        self.call_metrics = Subscription(
            CallMetrics(self.metrics, app.config), (CallEnded, CallRetried, CallUnresolved)
        )
        self.execution_layer = ExecutionTelemetry(self.metrics, app.sandbox, self._has_started)

    async def start(self) -> None:
        """Set up the configured exporters, in a thread: it imports OpenTelemetry's SDK."""
        settings = self._app.config.settings
        traces, numbers = TracingSettings.of(settings), MetricSettings.of(settings)
        names = await anyio.to_thread.run_sync(self.tracing.start, traces)
        more = await anyio.to_thread.run_sync(self.metrics.start, numbers, traces.service_name)
        for what, where in (("traces", names), ("metrics", more)):
            if where:
                logger.info("%s go to %s", what, ", ".join(where))
        self._has_started.set()

    async def serve(self) -> None:
        """Serve Prometheus's text to this machine on `metrics.port` until cancelled; a port that is taken is logged."""
        if (port := MetricSettings.of(self._app.config.settings).port) is not None:
            await _serve_on_loopback(self.metrics, port)

    def shutdown(self) -> None:
        self.tracing.shutdown(self.metrics.end)

    def text_over_http(self, principal: Principal | None) -> str | None:
        """Answer of `serve --http` to `/metrics`; None to those who may not read it, and if it is not configured. None
        is the person who runs the product."""
        settings = MetricSettings.of(self._app.config.settings)
        if not settings.http:
            return None
        is_reader = principal in (None, self._app.principal) or principal.principal_id in settings.readers
        return self.metrics.text() if is_reader else None


def _readings(app: App) -> Mapping[Instrument, Callable[[], Readings]]:
    """Metrics that are read from a product on demand; in any thread."""

    def servers() -> Readings:
        mask = app.config.redactor.text
        return {(mask(it.name), it.state.value): 1 for it in app.pool.listings()}

    def sandboxes() -> Readings:
        count = app.sandbox.count
        return {("idle",): count.idle, ("busy",): count.busy}

    def level() -> Readings:
        return {(app.sandbox.level.value,): 1} if app.sandbox.level is not None else {}

    return {
        metrics.WAITING: lambda: {(): app.executions.runner.turns.waiting},
        metrics.RUNNING: lambda: {(): app.executions.runner.turns.running},
        metrics.PLACES: lambda: {(): app.config.settings.limits.programs},
        metrics.APPROVALS: lambda: {(): app.approver.waiting if app.approver is not None else 0},
        metrics.SANDBOXES: sandboxes,
        metrics.LEVEL: level,
        metrics.UPSTREAMS: servers,
    }


async def _serve_on_loopback(numbers: Metrics, port: int) -> None:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route, Router

    from codemode_server.features.telemetry.prometheus_text import CONTENT_TYPE
    from codemode_server.support.loopback_server import serving

    async def respond(_: Request) -> Response:
        return Response(await anyio.to_thread.run_sync(numbers.text), media_type=CONTENT_TYPE)

    pages = Router([Route("/metrics", respond, methods=["GET"])], redirect_slashes=False)
    try:
        async with serving(pages, port=port):
            await anyio.sleep_forever()
    except OSError as error:
        logger.warning(
            "metrics.port: %d can't be opened (%s), so nothing is served there; each product needs a port of its own",
            port,
            error.strerror or error,
        )
