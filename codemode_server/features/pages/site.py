"""Admits browsers to the pages, and answers their requests by the pages that were added.

A `GET` changes nothing, but for the entrance, which works once. A form is accepted only from the admitted browser, from
a page of this origin, and with the token that its page had.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages.rendering import SCRIPT, STYLE, bare_page, page
from codemode_server.records.executions import Records
from codemode_server.support import loopback_server

ENTRANCE = "/open/"
"""The beginning of the path that admits a browser; the code follows."""
_COOKIE = "codemode"
_BYTES = 32
Respond = Callable[[Request], Awaitable[Response]]
RespondToForm = Callable[[Request, Mapping[str, str]], Awaitable[Response]]


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


class Site:
    """Admits one browser, and has what all pages need.

    The browser brings the code of the address, which works once, and gets a cookie. The pages are at a path that nobody
    can guess: cookies are sent to every port of an address, so that another server on the same one would get one for
    `/`. And the path alone, from a browser's history for instance, opens nothing."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.code = secrets.token_urlsafe(_BYTES)
        """Admits the first browser that brings it."""
        self._cookie: str | None = None
        self.base = f"/s/{secrets.token_urlsafe(_BYTES)}"
        """The path of the pages, without a slash at its end."""
        self.form_token = secrets.token_urlsafe(_BYTES)
        """Every form has to send it."""
        self._routes: list[Route] = []
        self.more: list[tuple[str, str]] = []
        """The paths and titles of the pages that the navigation has under "More"."""
        self._done: tuple[str, str] = ("", "")
        """The effect of the person's last action, behind the number that the address of the page has which shows it."""

    @property
    def app(self) -> Router:
        self.get("page.css", _content(STYLE, "text/css"))
        self.get("live.js", _content(SCRIPT, "text/javascript"))
        nothing = _default(lambda _: self.message(404, "Nothing here", "There is no such page."))
        self._pages = Router(self._routes, redirect_slashes=False, default=nothing)
        routes = [
            Route(f"{ENTRANCE}{{code}}", self._enter, methods=["GET"]),
            Mount(self.base, app=self._admitted),
        ]
        return Router(routes, redirect_slashes=False, default=_default(_not_admitted))

    def get(self, path: str, respond: Respond) -> None:
        self._add(path, "GET", respond)

    def post(self, path: str, respond: RespondToForm) -> None:
        async def posted(request: Request) -> Response:
            form = await loopback_server.form_of(request)
            is_own = loopback_server.is_from_own_page(request)
            if form is None or not is_own or not _equal(form.get("token", ""), self.form_token):
                return self.message(403, "Refused", "The form came from another page.")
            return await respond(request, form)

        self._add(path, "POST", posted)

    def _add(self, path: str, method: str, respond: Respond) -> None:
        async def answered(request: Request) -> Response:
            try:
                return await respond(request)
            except CodemodeError as error:
                return self.message(409, "That did not work", str(error))

        self._routes.append(Route(f"/{path}", answered, methods=[method]))

    async def page(
        self,
        template: str,
        section: str,
        request: Request | None = None,
        *,
        status: int = 200,
        is_live: bool = False,
        **values: Any,
    ) -> Response:
        questions = await self._records.approvals()
        is_paused = request is not None and request.query_params.get("live") == "off"
        return page(
            template,
            status=status,
            base=self.base,
            section=section,
            more_pages=self.more,
            token=self.form_token,
            waiting=[it.approval_id for it in questions],
            asked={it.execution_id: it.approval_id for it in reversed(questions)},
            can_be_live=is_live,
            is_live=is_live and not is_paused,
            done=self._said(request),
            **values,
        )

    def message(self, status: int, title: str, text: str) -> Response:
        return bare_page(title, text, status=status, base=self.base)

    def redirect(self, path: str, done: str = "") -> Response:
        """`done`: the effect of what the person did, for the page to show."""
        if not done:
            return RedirectResponse(f"{self.base}/{path}", status_code=303)
        number = secrets.token_hex(4)
        self._done = number, done
        return RedirectResponse(f"{self.base}/{path}?done={number}", status_code=303)

    def _said(self, request: Request | None) -> str:
        number, text = self._done
        return text if number and request is not None and request.query_params.get("done") == number else ""

    async def _enter(self, request: Request) -> Response:
        # A redirect would not carry the cookie, since the browser came from another site.
        is_right = self._cookie is None and _equal(request.path_params["code"], self.code)
        if request.method == "HEAD" or not is_right:
            return _not_admitted(request)
        self._cookie = secrets.token_urlsafe(_BYTES)
        response: Response = page("entered", base=self.base)
        response.set_cookie(_COOKIE, self._cookie, path=self.base, httponly=True, samesite="strict")
        return response

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if self._cookie is None or not _equal(request.cookies.get(_COOKIE, ""), self._cookie):
            await _not_admitted(request)(scope, receive, send)
            return
        # For admitted browsers only: it names the path of the pages, which no one else may know.
        base = f"http://{request.headers['host']}{self.base}"
        sources = f"style-src {base}/page.css; script-src {base}/live.js; connect-src {base}/"
        await self._pages(scope, receive, loopback_server.with_headers(send, {loopback_server.POLICY: sources}))


def _not_admitted(_: Request) -> Response:
    text = "Start `codemode-server ui` again: its address opens the pages once, in one browser."
    body = Markup("<h1>Not admitted</h1><p>{}</p>").format(text)
    return page("bare", status=403, base="", style="", title="Not admitted", body=body)


def _default(respond: Callable[[Request], Response]) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(Request(scope))(scope, receive, send)

    return app


def _content(text: str, media_type: str) -> Respond:
    async def respond(_: Request) -> Response:
        return Response(text, media_type=media_type)

    return respond
