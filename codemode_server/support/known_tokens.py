"""Recognises credentials that are secrets wherever they stand: tokens of widely used services, private keys, and
passwords in addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FORMS = {
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\w{20,}"),
    **dict.fromkeys(("glpat-", "sk-"), r"[\w-]{16,}"),
    **dict.fromkeys((f"xox{letter}-" for letter in "abeoprs"), r"[\w-]{10,}"),
    **dict.fromkeys(("AKIA", "ASIA"), "[0-9A-Z]{16}"),
    "AIza": r"[\w-]{30,}",
    "ya29.": r"[\w-]{20,}",
    **dict.fromkeys(("lin_api_", "ntn_", "secret_", "hf_", "npm_", "shpat_", "whsec_", "dop_v1_", "sbp_"), r"\w{20,}"),
    "figd_": r"[\w-]{20,}",
    "pat": r"[A-Za-z0-9]{14}\.\w{20,}",
    **dict.fromkeys(("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"\w{16,}"),
    "SG.": r"[\w-]{16,}\.[\w-]{16,}",
    "eyJ": r"[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
}
"""How tokens of widely used services begin, and how they go on. `eyJ` begins a JWT."""
KNOWN_TOKEN = re.compile(
    rf"(?<![\w-])(?:{'|'.join(re.escape(begin) + rest for begin, rest in _FORMS.items())})(?![\w-])"
)
_UNAMBIGUOUS = tuple(begin for begin in _FORMS if begin not in ("secret_", "pat", "hf_", "npm_", "sbp_"))


def begins_as_token(word: str) -> bool:
    """True if a word begins as a token of a widely used service and as nothing else."""
    return word.startswith(_UNAMBIGUOUS) or KNOWN_TOKEN.match(word) is not None


def has_known_token(text: str) -> bool:
    return KNOWN_TOKEN.search(text) is not None


PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_END_OF_KEY = "-----END "
_MAX_KEY_CHARACTERS = 8_000
_AFTER_SCHEME = re.compile(r"://[^\s/?#:@]{0,200}:(?P<password>[^\s/?#@]{3,200})@")
ADDRESS_WITH_PASSWORD = re.compile(rf"[a-z][a-z0-9+.-]{{1,30}}{_AFTER_SCHEME.pattern}", re.IGNORECASE)
_MAX_SCHEME_CHARACTERS = 31


def credentials_in(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each credential, in time linear in the text; of an address it is the password."""
    for begin in _FORMS:  # a search for these takes a tenth of the time of the pattern
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
