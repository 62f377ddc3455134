"""Decides who may see the pages: the browser that brings the code of the address, which works once.

The browser gets a cookie, and the pages are at a path that nobody can guess. Cookies are sent to every port of an
address, so that another server on the same one would get one for `/`; it does not get one for a path that it does
not know. And the path alone, from a browser's history for instance, opens nothing.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.requests import Request
from starlette.responses import Response

ENTRANCE = "/open/"
"""The beginning of the path that admits a browser; the code follows."""
_COOKIE = "codemode"
_BYTES = 32


class Admission:
    """The one browser that may see the pages; made anew for each start."""

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
