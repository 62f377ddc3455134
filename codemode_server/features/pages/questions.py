"""The page of one question at an address of its own, and the answer that its form sends.

The address is the whole permission to answer, so it is in no log, record, environment or command line, and the listener
ends with the question. A `GET` never answers: hosts and browsers fetch addresses by themselves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from codemode_server.domain.approvals import AnswerScope, ApprovalAnswer, Question, result_of
from codemode_server.features.pages.rendering import STYLE, bare_page, rendered, with_token_links
from codemode_server.features.pages.value_html import whole_html
from codemode_server.support import loopback_server

CHANNEL = "page"
MAX_REASON_CHARACTERS = 500
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY = {loopback_server.POLICY: f"style-src 'sha256-{_STYLE_DIGEST}'"}


def asked_html(question: Question, known: Collection[str] = (), base: str = "", *, heading: str = "h3") -> Markup:
    """What the call would send, and what differs: all of it, with links for `known` privacy tokens."""
    arguments = whole_html(dict(question.arguments)) if question.arguments else ""
    return with_token_links(rendered("asked", question=question, arguments=arguments, heading=heading), known, base)


def question_html(
    question: Question, action: str, *, token: str = "", known: Collection[str] = (), base: str = ""
) -> Markup:
    """The question and its form, which posts to the path `action` with the `token` of the pages. Every value of it is
    shown whole; `known` privacy tokens link to the pages at `base`."""
    pattern = question.pattern or {}
    return rendered(
        "question",
        question=question,
        effect=question.said_effect,
        asked=asked_html(question, heading="h2"),
        scopes=[it.value for it in question.scopes],
        pattern=pattern,
        free=[name for name in question.arguments if name not in pattern],
        max_reason=MAX_REASON_CHARACTERS,
        action=action,
        token=token,
        known=known,
        base=base,
    )


def texts_of(question: Question) -> str:
    """All that the page shows of what others wrote."""
    texts = [question.reason, *question.changes, *question.lines, *question.done, *question.sources]
    return "\n".join([*texts, json.dumps(dict(question.arguments), ensure_ascii=False, default=str)])


def answer_of(form: Mapping[str, str], question: Question) -> ApprovalAnswer | None:
    """The answer in the fields of a form; None if it is none that the page offers."""
    match form.get("answer"):
        case "refuse":
            reason = form.get("reason", "")[:MAX_REASON_CHARACTERS].strip()
            return ApprovalAnswer(False, reason=reason, channel=CHANNEL, answered_at=time.time())
        case "allow":
            if (scope := next((it for it in question.scopes if it.value == form.get("scope")), None)) is not None:
                result = result_of(form.get("result", "")) if scope is AnswerScope.ARRIVED else None
                return ApprovalAnswer(True, scope, channel=CHANNEL, answered_at=time.time(), result=result)
    return None


@dataclass(slots=True)
class OpenPage:
    address: str
    """Whoever has it can answer."""
    question: Question
    answer: ApprovalAnswer | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self) -> ApprovalAnswer:
        while self.answer is None:
            await self.answered.wait()
        return self.answer

    async def respond(self, request: Request) -> Response:
        if request.method != "POST":
            body = question_html(self.question, str(request.scope["path"]))
            return _page("Approval needed", body)
        if not loopback_server.is_from_own_page(request):
            return _page("Refused", "The answer came from another page.", 403)
        form = await loopback_server.form_of(request)
        answer = None if form is None else answer_of(form, self.question)
        if answer is None:
            return _page("Not understood", "Go back, and choose one of the answers.", 400)
        if self.answer is None:
            self.answer = answer
            self.answered.set()
        return _page("Allowed" if self.answer.is_approved else "Refused", "You can close this page.")


@asynccontextmanager
async def serving(question: Question) -> AsyncGenerator[OpenPage]:
    """The page of a question on a free port of the loopback interface. Raises `OSError`: there is none."""
    path = f"/approvals/{secrets.token_urlsafe(32)}"
    opened = OpenPage("", question)
    routes = [Route(path, opened.respond, methods=["GET", "POST"])]
    async with loopback_server.serving(Router(routes, redirect_slashes=False, default=_nothing)) as origin:
        opened.address = origin + path
        yield opened


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await _page("Nothing to answer", "There is no such question.", 404)(scope, receive, send)


def _page(title: str, body: Markup | str, status: int = 200) -> Response:
    response = bare_page(title, body, status=status)
    response.headers.update(_POLICY)
    return response
