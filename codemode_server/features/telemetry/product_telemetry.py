"""Starts the exporters of a product; says where its metrics are read, and who may read them over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codemode_server.domain.principals import Principal
from codemode_server.features.telemetry import metrics
from codemode_server.features.telemetry.metrics import Instrument, Readings
from codemode_server.features.telemetry.settings import MetricSettings, TracingSettings

if TYPE_CHECKING:
    from codemode_server.app import App

logger = logging.getLogger(__name__)


def readings(app: App) -> Mapping[Instrument, Callable[[], Readings]]:
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
        metrics.APPROVALS: lambda: {(): app.approver.waiting},
        metrics.SANDBOXES: sandboxes,
        metrics.LEVEL: level,
        metrics.UPSTREAMS: servers,
    }


async def start(app: App) -> None:
    """Set up the configured exporters, in a thread: it imports OpenTelemetry's SDK."""
    settings = app.config.settings
    names = await anyio.to_thread.run_sync(app.tracing.start, TracingSettings.of(settings))
    more = await anyio.to_thread.run_sync(
        app.metrics.start, MetricSettings.of(settings), TracingSettings.of(settings).service_name
    )
    for what, where in (("traces", names), ("metrics", more)):
        if where:
            logger.info("%s go to %s", what, ", ".join(where))


async def serve_on_loopback(app: App) -> None:
    """Serve Prometheus's text to this machine until cancelled, on `metrics.port`; a port that is taken is logged."""
    port = MetricSettings.of(app.config.settings).port
    if port is None:
        return
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route, Router

    from codemode_server.features.telemetry.prometheus_text import CONTENT_TYPE
    from codemode_server.support.loopback_server import serving

    async def respond(_: Request) -> Response:
        return Response(await anyio.to_thread.run_sync(app.metrics.text), media_type=CONTENT_TYPE)

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


def text_over_http(app: App, principal: Principal | None) -> str | None:
    """Answer of `serve --http` to `/metrics`; None to those who may not read it, and if it is not configured. None
    is the person who runs the product."""
    settings = MetricSettings.of(app.config.settings)
    if not settings.http:
        return None
    is_reader = principal in (None, app.principal) or principal.principal_id in settings.readers
    return app.metrics.text() if is_reader else None
