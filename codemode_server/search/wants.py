"""A query → the things that it asks for, each ranked by itself: `list the issues, then post a summary` asks two."""

from __future__ import annotations

import re

from codemode_server.search.words import stems

_MOST_WANTS = 8
_FEWEST_WORDS = 3
"""Of a want, stop words not counted; what is shorter belongs to what is around it."""

_VERBS = """
find get search list show create make send write read generate convert calculate compute check compare analyze
summarize fetch retrieve give tell provide suggest recommend identify determine download save upload add update delete
remove set look help explain describe plan book schedule translate extract draw plot visualize evaluate estimate
measure track monitor also include share post open run build design use ensure
"""
_BETWEEN = re.compile(
    r"(?<=[.!?])\s+|[;；。！？\n]|,\s|，"
    r"|\b(?:and then|then|also|finally|additionally|furthermore|moreover|as well as|afterwards|next)\b"
    rf"|\band\s+(?=(?:{'|'.join(_VERBS.split())})\b)",
    re.IGNORECASE,
)


def wants(query: str) -> tuple[str, ...]:
    """The wants of a query that has several; none for a query that is one."""
    parts = (part.strip() for part in _BETWEEN.split(query) if part)
    found = [part for part in parts if len(stems(part)) >= _FEWEST_WORDS]
    return tuple(found[:_MOST_WANTS]) if len(found) > 1 else ()
