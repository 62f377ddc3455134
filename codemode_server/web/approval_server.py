"""The pages of open questions on this machine, each at an address with a secret that only the person gets.

It listens while there is a question. The address is the whole permission to answer, so it is in no log, record,
environment or command line, and it is void once the question has its answer. Requests of other origins and with other
methods are refused. A `GET` never answers: hosts and browsers fetch addresses by themselves.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from codemode_server.domain.approvals import ApprovalAnswer, Question
from codemode_server.web import local_server
from codemode_server.web.approval_page import STYLE_SOURCE, answer_of, message_page, page

_POLICY = {local_server.POLICY: f"style-src {STYLE_SOURCE}"}


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
    """The pages of all open questions; a `local_server.Site`. Made by `serving`."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
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

    async def response(self, request: Request) -> Response:
        opened = self._found(local_server.path_of(request))
        if opened is None or request.url.query:
            return _message(404, "Nothing to answer", "This question has its answer, or its program has ended.")
        if request.method in ("GET", "HEAD"):
            return HTMLResponse(page(opened.question, local_server.path_of(request)), headers=_POLICY)
        if request.method != "POST":
            return _message(405, "Nothing here", "A question is answered by its form.")
        if not local_server.is_from_own_page(request, self._origin):
            return _message(403, "Refused", "The answer came from another page.")
        form = await local_server.form_of(request)
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


def _message(status: int, title: str, text: str) -> Response:
    return HTMLResponse(message_page(title, text), status_code=status, headers=_POLICY)


@asynccontextmanager
async def serving() -> AsyncGenerator[ApprovalServer]:
    """A listener on a free port of the loopback interface, until this is left.

    Raises:
        OSError: there is no free port.
    """
    async with local_server.serving(ApprovalServer) as server:
        yield server
