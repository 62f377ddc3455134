"""Who may see the pages: a browser that brings a code, which works once.

The browser gets a cookie, and the pages are at a path that nobody can guess. Cookies are sent to every port of an
address, so that another server on the same one would get one for `/`; it does not get one for a path that it does
not know. And the path alone, from a browser's history for instance, opens nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque

from starlette.requests import Request
from starlette.responses import Response

from codemode_server.web.local_server import path_of
from codemode_server.web.ui.one_time_codes import OneTimeCodes

ENTRANCE = "/open/"
"""What the path that admits a browser begins with; the code follows."""
_COOKIE = "codemode"
_BYTES = 32
_MAX_BROWSERS = 8
"""Browsers that are admitted at once; the one that was admitted first has to enter again."""


class Admission:
    """The browsers that were admitted; made anew for each start."""

    def __init__(self, codes: OneTimeCodes) -> None:
        self._codes = codes
        self._cookies: deque[str] = deque(maxlen=_MAX_BROWSERS)
        self.base = f"/s/{secrets.token_urlsafe(_BYTES)}"
        """The path of the pages, without a slash at its end."""
        self.form_token = secrets.token_urlsafe(_BYTES)
        """Every form has to send it."""

    def is_entrance(self, path: str) -> bool:
        """Whether a browser that asks for this path would be admitted."""
        return path.startswith(ENTRANCE) and self._codes.is_open(path.removeprefix(ENTRANCE))

    def redeem(self, path: str) -> bool:
        """Whether this is an entrance; from then on it is none."""
        return path.startswith(ENTRANCE) and self._codes.use(path.removeprefix(ENTRANCE))

    def admit(self, response: Response) -> None:
        """Give a cookie to the browser that gets this response."""
        cookie = secrets.token_urlsafe(_BYTES)
        self._cookies.append(cookie)
        response.set_cookie(_COOKIE, cookie, path=self.base, httponly=True, samesite="strict")

    def is_admitted(self, request: Request) -> bool:
        """Whether the request comes from a browser that was admitted, and for one of the pages."""
        is_within = _equal(path_of(request)[: len(self.base) + 1], f"{self.base}/")
        given = request.cookies.get(_COOKIE, "")
        return is_within and any(_equal(given, cookie) for cookie in self._cookies)

    def is_own_form(self, token: str) -> bool:
        """Whether a form was on one of these pages."""
        return _equal(token, self.form_token)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
