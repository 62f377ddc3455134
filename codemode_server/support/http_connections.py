"""Bounds what the connections of an HTTP server cost: those that bring no request in time are closed, and with too many
open, the one that has waited longest."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MAX_CONNECTIONS = 128
"""Open connections; fewer where the process may open few files."""
HEADER_SECONDS = 10.0
"""From opening a connection, or the last answer on it, until the headers of a request are there."""
_ACCEPTED_AT_ONCE = 8
"""Few, so that a request that comes at once is read before its connection is the one that has waited longest."""
_BACKLOG = 1024
"""Connections that the system holds until they are accepted; beyond it, a client has to try again after a second."""


def server(app: ASGIApp, **options: Any) -> uvicorn.Server:
    """A server for the app with these options of uvicorn; its `serve` takes listening sockets, until `should_exit`."""
    return _Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_config=None,  # its messages go through our own log, which has a bound
            access_log=False,
            backlog=_ACCEPTED_AT_ONCE,
            **options,
        )
    )


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the product."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # asyncio takes one number for this and for what it accepts at once


class Connection(H11Protocol):
    """One connection; uvicorn has a time limit for the wait after an answer, but none for headers."""

    _waiting: asyncio.TimerHandle | None = None
    """Set while there is no request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._follow()
        open_ones = [it for it in self.connections if isinstance(it, Connection) and not it.transport.is_closing()]
        if len(open_ones) > _max_connections():
            waiting = [(it._waiting.when(), it) for it in open_ones if it._waiting is not None]
            _, oldest = min(waiting, key=lambda pair: pair[0])  # this one waits as well
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _follow(self) -> None:
        is_busy = self.cycle is not None and not self.cycle.response_complete
        if is_busy:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


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


def _max_connections() -> int:
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MAX_CONNECTIONS, max(8, files // 4)) if files != resource.RLIM_INFINITY else MAX_CONNECTIONS
