"""Admits browsers to the pages, and answers their requests by the pages that were added.

A `GET` changes nothing, but for the entrance, which works once. A form is accepted only from the admitted browser, from
a page of this origin, and with the token that its page had.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from codemode_server.domain.errors import CodemodeError
from codemode_server.features.pages import server
from codemode_server.features.pages.rendering import SCRIPT, STYLE, bare_page, page
from codemode_server.records.executions import Records

ENTRANCE = "/open/"
"""The beginning of the path that admits a browser; the code follows."""
_COOKIE = "codemode"
_BYTES = 32
Respond = Callable[[Request], Awaitable[Response]]
RespondToForm = Callable[[Request, Mapping[str, str]], Awaitable[Response]]


class Admission:
    """The one browser that may see the pages: it brings the code of the address, which works once. Made anew for each
    start.

    The browser gets a cookie, and the pages are at a path that nobody can guess. Cookies are sent to every port of an
    address, so that another server on the same one would get one for `/`; it does not get one for a path that it does
    not know. And the path alone, from a browser's history for instance, opens nothing.
    """

    def __init__(self) -> None:
        self.code = secrets.token_urlsafe(_BYTES)
        """Admits the first browser that brings it."""
        self._cookie: str | None = None
        self.base = f"/s/{secrets.token_urlsafe(_BYTES)}"
        """The path of the pages, without a slash at its end."""
        self.form_token = secrets.token_urlsafe(_BYTES)
        """Every form has to send it."""

    def admit(self, code: str, response: Response) -> bool:
        """Give the cookie to the browser that gets this response; false if the code is wrong or was used."""
        if self._cookie is not None or not _equal(code, self.code):
            return False
        self._cookie = secrets.token_urlsafe(_BYTES)
        response.set_cookie(_COOKIE, self._cookie, path=self.base, httponly=True, samesite="strict")
        return True

    def is_admitted(self, request: Request) -> bool:
        """True if the request comes from the browser that was admitted."""
        return self._cookie is not None and _equal(request.cookies.get(_COOKIE, ""), self._cookie)

    def is_own_form(self, token: str) -> bool:
        """True if a form was on one of these pages."""
        return _equal(token, self.form_token)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


class Site:
    """Admits browsers, and has what all pages need."""

    def __init__(self, records: Records, admission: Admission) -> None:
        self._records = records
        self.admission = admission
        self._routes: list[Route] = []

    @property
    def app(self) -> Router:
        """All pages, once they were added."""
        self.get("page.css", _content(STYLE, "text/css"))
        self.get("live.js", _content(SCRIPT, "text/javascript"))
        nothing = _default(lambda _: self.message(404, "Nothing here", "There is no such page."))
        self._pages = Router(self._routes, redirect_slashes=False, default=nothing)
        routes = [
            Route(f"{ENTRANCE}{{code}}", self._enter, methods=["GET"]),
            Mount(self.admission.base, app=self._admitted),
        ]
        return Router(routes, redirect_slashes=False, default=_default(_not_admitted))

    def get(self, path: str, respond: Respond) -> None:
        """Add a page."""

        async def shown(request: Request) -> Response:
            try:
                return await respond(request)
            except CodemodeError as error:
                return self.message(409, "That did not work", str(error))

        self._routes.append(Route(f"/{path}", shown, methods=["GET"]))

    def post(self, path: str, respond: RespondToForm) -> None:
        """Add the answer to a form."""

        async def posted(request: Request) -> Response:
            form = await server.form_of(request)
            is_own = server.is_from_own_page(request)
            if form is None or not is_own or not self.admission.is_own_form(form.get("token", "")):
                return self.message(403, "Refused", "The form came from another page.")
            try:
                return await respond(request, form)
            except CodemodeError as error:
                return self.message(409, "That did not work", str(error))

        self._routes.append(Route(f"/{path}", posted, methods=["POST"]))

    async def page(
        self, template: str, section: str, request: Request | None = None, *, is_live: bool = False, **values: Any
    ) -> Response:
        """A page of a template, with the navigation."""
        questions = await self._records.history.open_questions(self._records.principal, time.time())
        is_paused = request is not None and request.query_params.get("live") == "off"
        return page(
            template,
            base=self.admission.base,
            section=section,
            token=self.admission.form_token,
            waiting=len(questions),
            asked=dict(reversed(questions)),
            can_be_live=is_live,
            is_live=is_live and not is_paused,
            **values,
        )

    def message(self, status: int, title: str, text: str) -> Response:
        return bare_page(title, text, status=status, base=self.admission.base)

    def redirect(self, path: str) -> Response:
        return RedirectResponse(f"{self.admission.base}/{path}", status_code=303)

    async def _enter(self, request: Request) -> Response:
        # A redirect would not carry the cookie, since the browser came from another site.
        response: Response = page("entered", base=self.admission.base)
        if request.method == "HEAD" or not self.admission.admit(request.path_params["code"], response):
            return _not_admitted(request)
        return response

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if not self.admission.is_admitted(request):
            await _not_admitted(request)(scope, receive, send)
            return
        # For admitted browsers only: it names the path of the pages, which no one else may know.
        base = f"http://{request.headers['host']}{self.admission.base}"
        sources = f"style-src {base}/page.css; script-src {base}/live.js; connect-src {base}/"
        await self._pages(scope, receive, server.with_headers(send, {server.POLICY: sources}))


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
