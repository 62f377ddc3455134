"""Prometheus's text on a port of this machine: the one page `/metrics`, without a secret, since it holds none."""

from __future__ import annotations

from collections.abc import Callable

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from codemode_server.telemetry.prometheus_text import CONTENT_TYPE
from codemode_server.web.local_server import path_of


class MetricsSite:
    """Implements `Site`."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    async def response(self, request: Request) -> Response:
        if path_of(request) != "/metrics" or request.method != "GET":
            return PlainTextResponse("Only GET /metrics is answered here.\n", status_code=404)
        return Response(await anyio.to_thread.run_sync(self._text), media_type=CONTENT_TYPE)
