"""Extracts what a subquery is about: `the certificates` in `show me the certificates in the key vault`.

The object follows the verb; a preposition introduces where, whose and with what. Tools for all of these are on the same
server and share most of their words.
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
_PREPOSITION_WORDS = frozenset(_PREPOSITIONS.split())


def focus_of(subquery: str) -> str:
    """The subquery up to the first preposition after its object; all of it if there is none."""
    has_verb = has_object = False
    for found in _WORD.finditer(subquery):
        word = found.group().lower()
        if word in _PREPOSITION_WORDS:
            if has_object:
                return subquery[: found.start()].strip()
        elif not has_verb and is_verb(word):
            has_verb = True
        elif not is_polite(word) and not is_stop_word(word):
            has_object = True
    return subquery
