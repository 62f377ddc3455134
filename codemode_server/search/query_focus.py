"""What a want is about: `the certificates` of `show me the certificates in the key vault`.

The thing that is wanted comes after the verb; what follows a preposition says where, whose and with what. Tools for all
of these are on the same server, and share most of their words.
"""

from __future__ import annotations

import re

from codemode_server.search.actions import is_polite, is_verb
from codemode_server.search.words import is_stop_word

_WORD = re.compile(r"[^\W_]+")
_PREPOSITIONS = """
    about and at based between by called from for in inside into named near of on over that through to under using via
    where which whose with within
"""
_AFTERWARDS = frozenset(_PREPOSITIONS.split())


def subject_of(want: str) -> str:
    """The want up to its first preposition after the thing that it names; all of it where there is none."""
    has_verb = has_thing = False
    for found in _WORD.finditer(want):
        word = found.group().lower()
        if word in _AFTERWARDS:
            if has_thing:
                return want[: found.start()].strip()
        elif not has_verb and is_verb(word):
            has_verb = True
        elif not is_polite(word) and not is_stop_word(word):
            has_thing = True
    return want
