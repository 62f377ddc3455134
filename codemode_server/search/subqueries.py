"""Splits a query into subqueries, one for each thing that it asks for, to be ranked separately.

`list the open issues, then post a summary of them` asks for two things.
"""

from __future__ import annotations

import re

from codemode_server.search.words import stems

_MAX_SUBQUERIES = 8
_MIN_WORDS = 3
"""Minimum length of a subquery without stop words; a shorter clause belongs to its neighbour."""

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


def subqueries(query: str) -> tuple[str, ...]:
    """The subqueries of a query with several; empty for any other query."""
    parts = (part.strip() for part in _CLAUSE_END.split(query) if part)
    found = [part for part in parts if len(stems(part)) >= _MIN_WORDS]
    return tuple(found[:_MAX_SUBQUERIES]) if len(found) > 1 else ()
