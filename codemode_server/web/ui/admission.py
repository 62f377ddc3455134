"""Who may see the pages: the one browser that brings the secret, which works once.

The browser gets a cookie, and the pages are at a path that nobody can guess. Cookies are sent to every port of an
address, so that another server on 127.0.0.1 would get one for `/`; it does not get one for a path that it does not
know. And the path alone, from a browser's history for instance, opens nothing.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.requests import Request
from starlette.responses import Response

from codemode_server.web.local_server import path_of

_COOKIE = "codemode"
_BYTES = 32


class Admission:
    """One browser's session; made anew for each start."""

    def __init__(self) -> None:
        self._secret: str | None = secrets.token_urlsafe(_BYTES)
        self._cookie = secrets.token_urlsafe(_BYTES)
        self.base = f"/s/{secrets.token_urlsafe(_BYTES)}"
        """The path of the pages, without a slash at its end."""
        self.form_token = secrets.token_urlsafe(_BYTES)
        """Every form has to send it."""

    @property
    def entrance(self) -> str:
        """The path that admits the first browser that asks for it."""
        return f"/open/{self._secret or ''}"

    def redeem(self, path: str) -> bool:
        """Whether this is the entrance; from then on it is none."""
        is_right = self._secret is not None and _equal(path, self.entrance)
        if is_right:
            self._secret = None
        return is_right

    def admit(self, response: Response) -> None:
        """Give the cookie to the browser that gets this response."""
        response.set_cookie(_COOKIE, self._cookie, path=self.base, httponly=True, samesite="strict")

    def is_admitted(self, request: Request) -> bool:
        """Whether the request comes from the browser that was admitted, and for one of the pages."""
        is_within = _equal(path_of(request)[: len(self.base) + 1], f"{self.base}/")
        return is_within and _equal(request.cookies.get(_COOKIE, ""), self._cookie)

    def is_own_form(self, token: str) -> bool:
        """Whether a form was on one of these pages."""
        return _equal(token, self.form_token)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
