"""Recognises credentials that are secrets wherever they stand: tokens of widely used services, private keys, and
passwords in addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

KNOWN_TOKEN = re.compile(
    r"(?<![\w-])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|lin_api_\w{20,}|ntn_\w{20,}|secret_\w{20,}|hf_\w{20,}|npm_\w{20,}|figd_[\w-]{20,}"
    r"|pat[A-Za-z0-9]{14}\.\w{20,}|shpat_\w{20,}|[rs]k_(?:live|test)_\w{16,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)(?![\w-])"
)


def has_known_token(text: str) -> bool:
    """Whether there is a token of a widely used service in the text."""
    return KNOWN_TOKEN.search(text) is not None


_TOKEN_BEGINS = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "xox", "AKIA", "AIza", "lin_api_"),
    *("ntn_", "secret_", "hf_", "npm_", "figd_", "pat", "shpat_", "sk_", "rk_", "SG.", "eyJ"),
)
"""A search for these takes a tenth of the time of the pattern."""
PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_END_OF_KEY = "-----END "
_MAX_KEY_CHARACTERS = 20_000
_AFTER_SCHEME = re.compile(r"://[^\s/?#:@]{0,200}:(?P<password>[^\s/?#@]{3,200})@")
ADDRESS_WITH_PASSWORD = re.compile(rf"[a-z][a-z0-9+.-]{{1,30}}{_AFTER_SCHEME.pattern}", re.IGNORECASE)
_MAX_SCHEME_CHARACTERS = 31


def credentials_in(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each credential, in time linear in the text; of an address it is the password."""
    for begin in _TOKEN_BEGINS:
        at = text.find(begin)
        while at >= 0:
            found = KNOWN_TOKEN.match(text, at)
            if found:
                yield found.span()
            at = text.find(begin, found.end() if found else at + 1)
    if "PRIVATE KEY-----" in text:
        for key in PRIVATE_KEY.finditer(text):
            end = text.find(_END_OF_KEY, key.end(), key.end() + _MAX_KEY_CHARACTERS)
            end = text.find("-----", end + len(_END_OF_KEY), end + 80) + 5 if end >= 0 else key.end()
            yield key.start(), max(end, key.end())
    at = text.find("://")
    while at >= 0:
        if _AFTER_SCHEME.match(text, at, at + 405):
            found = ADDRESS_WITH_PASSWORD.search(text, max(0, at - _MAX_SCHEME_CHARACTERS), at + 405)
            if found and found.start() < at < found.end():
                yield found.span("password")
        at = text.find("://", at + 3)
