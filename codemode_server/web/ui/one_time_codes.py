"""Codes that admit one browser each. Whoever has the key can make them, in another process as well."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

KEY_BYTES = 32
_NONCE_BYTES = 16
_MAX_CODE_CHARACTERS = 200
_AHEAD_S = 5.0
"""How much later than here a code may seem to be made."""


def new_code(key: bytes, at: float) -> str:
    """A code for one browser, made at this time."""
    made = f"{at:.3f}_{secrets.token_urlsafe(_NONCE_BYTES)}"
    return f"{made}_{_mark(key, made)}"


class OneTimeCodes:
    """What was made with one key, and which of it was used."""

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
        """Whether the code could be used now."""
        made, _, mark = code[:_MAX_CODE_CHARACTERS].rpartition("_")
        is_ours = hmac.compare_digest(mark.encode("utf-8", "replace"), _mark(self._key, made).encode())
        if not is_ours or made in self._used:
            return False
        age = self._clock() - float(made.partition("_")[0])
        return self._max_age_s is None or -_AHEAD_S <= age <= self._max_age_s

    def use(self, code: str) -> bool:
        """Whether the code is good; from then on it is not."""
        if not self.is_open(code):
            return False
        self._used.add(code.rpartition("_")[0])
        return True


def _mark(key: bytes, made: str) -> str:
    return hmac.digest(key, made.encode("utf-8", "replace"), "sha256").hex()
