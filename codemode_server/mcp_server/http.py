"""Serves the MCP server over HTTP to those who have a token, with bounds on what a connection may cost.

Without a token nothing is answered but where to get one and whether programs are taken, before a byte of the body is
read. With the bounds of `http_connections`, others can't hold the service up, whether by many connections or by slow
ones.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from codemode_server.mcp_server.replicas import forward, replica_in
from codemode_server.support import http_connections
from codemode_server.support.json_values import holds_too_many_values
from codemode_server.support.off_loop import Pace

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from codemode_server.mcp_server.auth.authenticator import Authenticator
    from codemode_server.mcp_server.server import McpServer

MAX_SESSIONS = 256
"""Sessions of hosts at once."""
SESSION_IDLE_SECONDS = 1800.0
"""A session that has had no request under way for so long ends; its host has to begin another."""
MAX_BODY_BYTES = 1 << 20
"""A program is the largest thing that a host sends."""
MAX_BODY_VALUES = 20_000
"""Values and keys in the JSON of one request."""
_LARGE_BODY_BYTES = 64 << 10
_LARGE_AT_ONCE = 16
"""Large bodies that are received and held at once. One is parsed at a time: it takes several times its size."""
BODY_SECONDS = 30.0
_WATCHED_SECONDS, _NOTICED_SECONDS, _LOOK_SECONDS = 60.0, 2.0, 0.02
"""A balancer that asked `/readyz` in the last minute asks again soon, and sends requests until then."""


def sessions(server: McpServer, host: str, url: str | None = None) -> ASGIApp:
    """The app that serves the product to each host in a session of its own. On loopback it serves only requests for
    loopback, and for the host in `url`: a page in a browser may reach loopback under a name of its own."""
    from mcp.server.transport_security import TransportSecuritySettings

    names = [*_LOOPBACK_NAMES, *([urlsplit(url).netloc] if url else [])]
    origins = [f"http://{name}" for name in _LOOPBACK_NAMES]
    if url:
        origins.append(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}")
    is_checked = url is not None or host in ("127.0.0.1", "::1")
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_checked, allowed_hosts=names, allowed_origins=origins
    )
    return server.streamable_http_app(
        host=host,
        transport_security=security,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE_SECONDS,
    )


_LOOPBACK_NAMES = ("127.0.0.1:*", "localhost:*", "[::1]:*")


class HttpService:
    """The app behind the authentication; it gets whole bodies, of bounded size and in bounded time."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator, mcp: McpServer) -> None:
        """`mcp` is what the app serves; it also answers `/metrics` and `/readyz`."""
        self.server: uvicorn.Server = http_connections.server(self, log_level="error")
        self._unanswered, self._watched_at = 0, -math.inf
        self._app = app
        self._mcp = mcp
        self._authenticator = authenticator
        self._large, self._parsing = anyio.Semaphore(_LARGE_AT_ONCE), anyio.Semaphore(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.pop("user", None)
        if scope["path"] in ("/healthz", "/readyz") and scope["method"] in ("GET", "HEAD"):
            await (await self._health(scope["path"]))(scope, receive, send)
            return
        if (user := await self._authenticator.user_of(scope)) is None:
            response: Response
            if (metadata := self._authenticator.metadata(scope)) is not None:
                response = JSONResponse(metadata, headers={"connection": "close"})
            else:
                response = _response(self._authenticator.refusal, 401)
                response.headers["www-authenticate"] = self._authenticator.challenge
            await response(scope, receive, send)
            return
        scope["user"] = user
        if scope["path"] == "/metrics" and scope["method"] == "GET":
            reader = user.proved.principal if user.proved else None
            text = await anyio.to_thread.run_sync(self._mcp.metrics_text, reader)
            if text is not None:
                await _response(text, media_type=_PROMETHEUS)(scope, receive, send)
                return
        request = Request(scope, receive)
        is_answered = scope["method"] == "POST" and request.headers.get("mcp-method") != "subscriptions/listen"
        self._unanswered += is_answered
        try:
            await self._serve(request, send)
        finally:
            self._unanswered -= is_answered

    async def _health(self, path: str) -> Response:
        why = ""
        if path == "/readyz":
            self._watched_at = anyio.current_time()
            why = await self._mcp.why_not_ready()
        return _response(f"{why or 'ok'}\n", 503 if why else 200)

    async def drained(self) -> None:
        """Return once all answers are sent, but for streams of notifications, and a balancer knows of the end."""
        if anyio.current_time() - self._watched_at < _WATCHED_SECONDS:
            await anyio.sleep(_NOTICED_SECONDS)
        connections: Any = self.server.server_state.connections
        while self._unanswered or any(it.transport.get_write_buffer_size() for it in connections):  # noqa: ASYNC110
            await anyio.sleep(_LOOK_SECONDS)

    async def _serve(self, request: Request, send: Send) -> None:
        """A request of somebody who may be served."""
        scope, receive = request.scope, request.receive
        is_large = int(request.headers.get("content-length", MAX_BODY_BYTES)) > _LARGE_BODY_BYTES
        async with AsyncExitStack() as held:
            if is_large and scope["method"] == "POST":
                await held.enter_async_context(self._large)
            try:
                body = await http_connections.body_of(request, MAX_BODY_BYTES, BODY_SECONDS)
            except TimeoutError:
                refusal = _response(f"the request took longer than {BODY_SECONDS:g} seconds\n", 408)
                await refusal(scope, receive, send)
                return
            except http_connections.BodyTooLarge:
                await _response(f"a request may have {MAX_BODY_BYTES:,} bytes\n", 413)(scope, receive, send)
                return
            except ClientDisconnect:
                return
            if self._mcp.is_draining and scope["method"] == "POST" and "mcp-session-id" not in request.headers:
                await _response(_DRAINING, 503)(scope, receive, send)
                return
            if holds_too_many_values(body, MAX_BODY_VALUES):
                await _response(f"a request may have {MAX_BODY_VALUES:,} values and keys\n", 413)(scope, receive, send)
                return
            if len(body) > _LARGE_BODY_BYTES:
                await held.enter_async_context(self._turn_to_parse())
            if (address := replica_in(body, self._mcp.request_states)) not in ("", self._mcp.address):
                await held.aclose()
                if await forward(request, body, address, send):
                    return
            messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
            del body

            async def replay() -> Message:
                return messages.pop() if messages else await receive()

            async def answer(message: Message) -> None:
                await held.aclose()  # an answer begins once the request was read, and may take as long as a program
                await send(message)

            await self._app(scope, replay, answer)

    @asynccontextmanager
    async def _turn_to_parse(self) -> AsyncGenerator[None]:
        async with self._parsing:
            pace = Pace()
            yield
            await pace.rest()


def _response(text: str, status: int = 200, media_type: str = "text/plain") -> Response:
    return Response(text, status, {"connection": "close"}, media_type)


_DRAINING = "this server is being stopped, and nothing of this request was done; send it again\n"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
