"""Serves pages on the loopback interface of this machine.

Every request has to name this host and port (DNS rebinding), and every response forbids framing, caching and everything
that a page does not need. Forms of other origins are recognised here. Who may see which page is decided by the pages.
Anyone on this machine can connect, so nobody may hold up others by connections that bring no request.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

import anyio
import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codemode_server.support import http_connections

POLICY = "Content-Security-Policy"
_MAX_FORM_BYTES = 16 * 2**10
_MAX_FIELDS = 20
_BODY_SECONDS = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NOTHING = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
_ADDRESS = "127.0.0.1"


def is_from_own_page(request: Request) -> bool:
    """True if a form was sent by a page of this origin. Browsers say where a form comes from; a client that does not is
    no browser, so no page of another origin makes it send anything."""
    origin = f"http://{request.headers['host']}"
    is_own = request.headers.get("origin", origin) == origin
    return is_own and request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def form_of(request: Request) -> dict[str, str] | None:
    """The fields that a form has once; None if it is beyond the bounds of size and time, or no form of a page."""
    try:
        body = await http_connections.body_of(request, _MAX_FORM_BYTES, _BODY_SECONDS)
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, encoding="utf-8")
    except (http_connections.BodyTooLarge, TimeoutError, ClientDisconnect, ValueError):
        return None
    return {name: values[0] for name, values in fields.items()} if all(len(it) == 1 for it in fields.values()) else None


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """As `send`, with these headers in the response; its policy is added to one of them."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = MutableHeaders(scope=message)
            policy = "; ".join(filter(None, [headers.get(POLICY), own.get(POLICY)]))
            own.update({**headers, **({POLICY: policy} if policy else {})})
        await send(message)

    return sent


@asynccontextmanager
async def serving(app: ASGIApp, *, port: int = 0) -> AsyncGenerator[str]:
    """A listener for the app; gives its origin. Port 0 takes a free one. Raises `OSError`: the port is taken."""
    # Without the protocol, asyncio leaves Nagle's algorithm on, and each page waits 40 ms for an acknowledgement.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind((_ADDRESS, port))
        listener.listen()  # whoever gets the address may connect before the server has started
        host = f"{_ADDRESS}:{listener.getsockname()[1]}"
        server = http_connections.server(
            _guarded(app, host),
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, listener)
            try:
                yield f"http://{host}"
            finally:
                server.should_exit = True


def _guarded(app: ASGIApp, host: str) -> ASGIApp:
    refusal = PlainTextResponse("This is no address of codemode-server.", status_code=421)

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            is_own = Request(scope).headers.get("host") == host
            await (app if is_own else refusal)(scope, receive, with_headers(send, {**_HEADERS, POLICY: _NOTHING}))

    return respond


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    with anyio.CancelScope(shield=True):  # uvicorn closes its connections when it is told to, not when it is cancelled
        await server.serve(sockets=[listener])
