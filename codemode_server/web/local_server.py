"""Serves pages on the loopback interface of this machine.

Every request has to name this host and port (DNS rebinding), and every response forbids framing, caching and everything
that a page does not need. Forms of other origins are recognised here. Who may see which page is decided by the site.
Anyone on this machine can connect, so nobody may hold up others by connections that bring no request.

Without a configured port, the listener is at an address that nobody can have had before. A browser runs the service
workers of everyone who once served something at an address and port, and sends cookies to all ports of an address.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

import anyio
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codemode_server import http_connections

_MAX_FORM_BYTES = 16 * 2**10
_BODY_SECONDS = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PLAIN_ADDRESS = "127.0.0.1"
_OF_REMOTE_SESSIONS = ("SSH_CONNECTION", "VSCODE_IPC_HOOK_CLI", "REMOTE_CONTAINERS", "CODESPACES")
"""Set in a shell on another machine, or by an editor that works there. In WSL the kernel tells."""
POLICY = "Content-Security-Policy"
_NOTHING = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


class Site(Protocol):
    """The pages of one listener."""

    async def response(self, request: Request) -> Response:
        """The answer to a request that names this host. What a page may load is in its header `POLICY`; all else is
        added here."""


SiteT = TypeVar("SiteT", bound=Site)


def path_of(request: Request) -> str:
    """The decoded path as it was sent. `request.url` leaves out line breaks and tabs, so that other paths equal it."""
    return str(request.scope["path"])


def is_from_own_page(request: Request, origin: str) -> bool:
    """Whether a form was sent by a page of this origin. Browsers say where a form comes from; a client that does not is
    no browser, so no page of another origin makes it send anything."""
    is_own = request.headers.get("origin", origin) == origin
    return is_own and request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def form_of(request: Request) -> bytes | None:
    """The form, within bounds of size and time; None if it is beyond them."""
    body = b""
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_FORM_BYTES:
                    return None
    except (TimeoutError, ClientDisconnect):
        return None
    return body


@asynccontextmanager
async def serving(make: Callable[[str], SiteT], *, port: int = 0) -> AsyncGenerator[SiteT]:
    """A listener, until this is left, with the site that `make` gives for its origin. Port 0 takes a free one, at
    another address of this machine each time where that is possible; other ports are at 127.0.0.1.

    Raises:
        OSError: the port is taken, or there is no free one.
    """
    # Without the protocol, asyncio leaves Nagle's algorithm on, and each page waits 40 ms for an acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        _bind(listener, port)
        address, port = listener.getsockname()
        origin = f"http://{address}:{port}"
        site = make(origin)
        server = _Server(
            uvicorn.Config(
                _application(site, origin.removeprefix("http://")),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                http=http_connections.Connection,
                ws="none",
                backlog=http_connections.ACCEPTED_AT_ONCE,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
            )
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, [listener])
            try:
                yield site
            finally:
                server.should_exit = True


def _bind(listener: socket.socket, port: int) -> None:
    if port == 0 and not _is_browser_elsewhere():
        with suppress(OSError):  # macOS has only one loopback address
            listener.bind((f"127.{'.'.join(str(1 + secrets.randbelow(254)) for _ in range(3))}", 0))
            return
    listener.bind((_PLAIN_ADDRESS, port))


def _is_browser_elsewhere() -> bool:
    """Whether the person's browser may run on another machine. What forwards ports to it knows one address only."""
    return any(name in os.environ for name in _OF_REMOTE_SESSIONS) or "microsoft" in platform.release().lower()


def _application(site: Site, host: str) -> ASGIApp:
    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.headers.get("host") == host:
            response = await site.response(request)
        else:
            response = PlainTextResponse("This is no address of codemode-server.", status_code=421)
        response.headers.update(_HEADERS)
        response.headers[POLICY] = "; ".join(filter(None, [_NOTHING, response.headers.get(POLICY)]))
        await response(scope, receive, send)

    return respond


class _Server(http_connections.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the product."""
        yield


async def _serve(server: uvicorn.Server, sockets: list[Any]) -> None:
    with anyio.CancelScope(shield=True):  # uvicorn closes its connections when it is told to, not when it is cancelled
        await server.serve(sockets=sockets)
