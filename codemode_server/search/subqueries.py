"""Splits a query into subqueries, one for each thing that it asks for, to be ranked separately.

`list the open issues, then post a summary of them` asks for two things, and so does `commit history and diffs`.
"""

from __future__ import annotations

import re

from codemode_server.search.actions import is_polite, is_verb
from codemode_server.search.words import STOP_WORDS, stems

_MAX_SUBQUERIES = 8
_MIN_WORDS = 3
"""Minimum length of a subquery without stop words; a shorter clause belongs to its neighbour."""
_MAX_SHORT_WORDS = 8
"""A query of up to this length is more likely a list of nouns than a sentence, so its parts may be single words."""
_MAX_SHORT_CHARACTERS = 200

_VERBS = """
find get search list show create make send write read generate convert calculate compute check compare analyze
summarize fetch retrieve give tell provide suggest recommend identify determine download save upload add update delete
remove set look help explain describe plan book schedule translate extract draw plot visualize evaluate estimate
measure track monitor also include share post open run build design use ensure
"""
_CLAUSE_END = re.compile(
    r"(?<=[.!?])\s+|[;；。！？\n]|,\s|，"
    r"|\b(?:and then|then|also|finally|additionally|furthermore|moreover|as well as|afterwards|next)\b"
    rf"|\band\s+(?=(?:{'|'.join(_VERBS.split())})\b)",
    re.IGNORECASE,
)
_PART_END = re.compile(r"\s+and\s+(?:then\s+)?|\s+(?:plus|then)\s+|\s*[,;+&]\s*(?:and\s+)?", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")


def subqueries(query: str) -> tuple[str, ...]:
    """The subqueries of a query with several; empty for any other query."""
    parts = (part.strip() for part in _CLAUSE_END.split(query) if part)
    found = [part for part in parts if len(stems(part)) >= _MIN_WORDS]
    return tuple(found[:_MAX_SUBQUERIES]) if len(found) > 1 else ()


def is_short(query: str) -> bool:
    """True if a query has at most eight words."""
    return len(query) <= _MAX_SHORT_CHARACTERS and len(_WORD.findall(query)) <= _MAX_SHORT_WORDS


def short_parts(query: str) -> tuple[str, ...]:
    """The parts of a short query such as `commit history and diffs`; empty if it is longer or has one part.

    Every part must contain a noun: `search and replace text` is not split.
    """
    if not is_short(query):
        return ()
    parts = tuple(part.strip() for part in _PART_END.split(query) if part and part.strip())
    return parts if len(parts) > 1 and all(map(_names_a_thing, parts)) else ()


def _names_a_thing(part: str) -> bool:
    found = [word.lower() for word in _WORD.findall(part)]
    return any(not (is_verb(word) or word in STOP_WORDS or is_polite(word)) for word in found)
