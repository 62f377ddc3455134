"""Decides who may see the pages: a browser that brings a code, which works once.

The browser gets a cookie, and the pages are at a path that nobody can guess. Cookies are sent to every port of an
address, so that another server on the same one would get one for `/`; it does not get one for a path that it does
not know. And the path alone, from a browser's history for instance, opens nothing. Whoever has the key can make codes,
in another process as well.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

KEY_BYTES = 32
ENTRANCE = "/open/"
"""The beginning of the path that admits a browser; the code follows."""
_COOKIE = "codemode"
_BYTES = 32
_MAX_BROWSERS = 8
"""Browsers that are admitted at once; the one that was admitted first has to enter again."""
_NONCE_BYTES = 16
_MAX_CODE_CHARACTERS = 200
_AHEAD_S = 5.0
"""How much later than here a code may seem to be made."""


def new_code(key: bytes, at: float) -> str:
    """A code for one browser, made at this time."""
    made = f"{at:.3f}_{secrets.token_urlsafe(_NONCE_BYTES)}"
    return f"{made}_{_mark(key, made)}"


class OneTimeCodes:
    """The codes of one key, and which of them were used."""

    def __init__(
        self, key: bytes | None = None, *, max_age_s: float | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Without `max_age_s` a code is good until it is used."""
        self._key = secrets.token_bytes(KEY_BYTES) if key is None else key
        self._max_age_s = max_age_s
        self._clock = clock
        self._used: set[str] = set()

    def new(self) -> str:
        """A code for one browser."""
        return new_code(self._key, self._clock())

    def is_open(self, code: str) -> bool:
        """True if the code could be used now."""
        made, _, mark = code[:_MAX_CODE_CHARACTERS].rpartition("_")
        if not _equal(mark, _mark(self._key, made)) or made in self._used:
            return False
        age = self._clock() - float(made.partition("_")[0])
        return self._max_age_s is None or -_AHEAD_S <= age <= self._max_age_s

    def use(self, code: str) -> bool:
        """True if the code is good; from then on it is not."""
        if not self.is_open(code):
            return False
        self._used.add(code.rpartition("_")[0])
        return True


class Admission:
    """The browsers that were admitted; made anew for each start."""

    def __init__(self, codes: OneTimeCodes) -> None:
        self.codes = codes
        self._cookies: deque[str] = deque(maxlen=_MAX_BROWSERS)
        self.base = f"/s/{secrets.token_urlsafe(_BYTES)}"
        """The path of the pages, without a slash at its end."""
        self.form_token = secrets.token_urlsafe(_BYTES)
        """Every form has to send it."""

    def admit(self, response: Response) -> None:
        """Give a cookie to the browser that gets this response."""
        cookie = secrets.token_urlsafe(_BYTES)
        self._cookies.append(cookie)
        response.set_cookie(_COOKIE, cookie, path=self.base, httponly=True, samesite="strict")

    def is_admitted(self, request: Request) -> bool:
        """True if the request comes from a browser that was admitted."""
        given = request.cookies.get(_COOKIE, "")
        return any(_equal(given, cookie) for cookie in self._cookies)

    def is_own_form(self, token: str) -> bool:
        """True if a form was on one of these pages."""
        return _equal(token, self.form_token)


def _mark(key: bytes, made: str) -> str:
    return hmac.digest(key, made.encode("utf-8", "replace"), "sha256").hex()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))
