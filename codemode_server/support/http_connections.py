"""Bounds what the connections of an HTTP server cost: their number, and the size and the time of a body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from starlette.requests import Request

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MAX_CONNECTIONS = 128
"""Open connections; requests on further ones are answered with status 503."""


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """A server for the app with these options of uvicorn; its `serve` takes listening sockets, until `should_exit`."""
    return _Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_config=None,  # its messages go through our own log, which has a bound
            access_log=False,
            limit_concurrency=MAX_CONNECTIONS,
            **options,
        )
    )


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the product."""
        yield


class BodyTooLarge(Exception):
    """Raised for a request whose body has too many bytes."""


async def body_of(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """The whole body of a request. Raises `BodyTooLarge` if it has more bytes, or only says so; `TimeoutError` if it
    took longer; `ClientDisconnect` if the client closed the connection within its request."""
    body = bytearray()
    if int(request.headers.get("content-length", "0")) > max_bytes:  # h11 let nothing but digits through
        raise BodyTooLarge
    with anyio.fail_after(timeout_s):
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise BodyTooLarge
    return bytes(body)
