"""Serves the pages of open questions on this machine, each at an address with a secret that only the person gets.

It listens on the loopback interface while there is a question. The address is the whole permission to answer, so it is
in no log, record, environment or command line, and it is void once the question has its answer. Requests of other
origins, for other hosts (DNS rebinding) and with other methods are refused. A `GET` never answers: hosts and browsers
fetch addresses by themselves.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from codemode_server.domain.approvals import ApprovalAnswer, Question
from codemode_server.web.approval_page import answer_of, message_page, page

_MAX_FORM_BYTES = 16 * 2**10
_BODY_SECONDS = 10.0
_CONNECTIONS = 32
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(slots=True)
class OpenPage:
    """The page of one question."""

    address: str
    """Whoever has it can answer."""
    question: Question
    answer: ApprovalAnswer | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self) -> ApprovalAnswer:
        """The person's answer."""
        while self.answer is None:
            await self.answered.wait()
        return self.answer


class ApprovalServer:
    """One listener with the pages of all open questions. Made by `serving`."""

    def __init__(self, port: int) -> None:
        self._origin = f"http://127.0.0.1:{port}"
        self._pages: dict[str, OpenPage] = {}

    @contextmanager
    def page(self, question: Question) -> Iterator[OpenPage]:
        """A page for a question, until this is left."""
        path = f"/approvals/{secrets.token_urlsafe(32)}"
        self._pages[path] = opened = OpenPage(self._origin + path, question)
        try:
            yield opened
        finally:
            del self._pages[path]

    @property
    def is_idle(self) -> bool:
        """Whether there is no page."""
        return not self._pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        if scope["type"] == "http":
            response = await self._response(Request(scope, receive))
            response.headers.update(_HEADERS)
            await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        if request.headers.get("host") != self._origin.removeprefix("http://"):
            return _message(421, "Nothing here", "This is no address of codemode-server.")
        opened = self._found(request.url.path)
        if opened is None or request.url.query:
            return _message(404, "Nothing to answer", "This question has its answer, or its program has ended.")
        if request.method in ("GET", "HEAD"):
            return HTMLResponse(page(opened.question, request.url.path))
        if request.method != "POST":
            return _message(405, "Nothing here", "A question is answered by its form.")
        is_own = request.headers.get("origin", self._origin) == self._origin
        if not is_own or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _message(403, "Refused", "The answer came from another page.")
        form = await _body(request)
        answer = None if form is None else answer_of(form, opened.question)
        if answer is None:
            return _message(400, "Not understood", "Go back, and choose one of the answers.")
        if opened.answer is None:
            opened.answer = answer
            opened.answered.set()
        return _message(200, "Allowed" if opened.answer.is_approved else "Refused", "You can close this page.")

    def _found(self, path: str) -> OpenPage | None:
        """Compares all paths in constant time, so that none can be found by the time it takes."""
        found = None
        for known, opened in self._pages.items():
            if hmac.compare_digest(known.encode(), path.encode("utf-8", "replace")):
                found = opened
        return found


async def _body(request: Request) -> bytes | None:
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


def _message(status: int, title: str, text: str) -> Response:
    return HTMLResponse(message_page(title, text), status_code=status)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the product."""
        yield


@asynccontextmanager
async def serving() -> AsyncGenerator[ApprovalServer]:
    """A listener on a free port of the loopback interface, until this is left.

    Raises:
        OSError: there is no free port.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        made = ApprovalServer(listener.getsockname()[1])
        server = _Server(
            uvicorn.Config(
                made,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
            )
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve, server, [listener])
            try:
                yield made
            finally:
                server.should_exit = True


async def _serve(server: uvicorn.Server, sockets: list[Any]) -> None:
    with anyio.CancelScope(shield=True):  # uvicorn closes its connections when it is told to, not when it is cancelled
        await server.serve(sockets=sockets)
