"""Drops weak results, which cost tokens and mislead, and finds subqueries without a match.

Returning fewer results than the limit is fine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from codemode_server.search.deduplication import ResultGroup
from codemode_server.search.documents import Findable
from codemode_server.search.ranker_stack import RankerName
from codemode_server.search.relevance import relevance, word_weights
from codemode_server.search.subqueries import subqueries
from codemode_server.search.words import without_values

_SHARE_BY_WORDS, _SHARE_BY_MEANING = 0.5, 0.6
_SHARE_OF_SEVERAL_BY_WORDS = 0.45
"""Results with a smaller share of the best score are hardly ever relevant (`benchmarks/SEARCH.md`). The share with
vectors is larger, since every text is somewhat similar to a query."""
_MIN_SHOWN = 3
"""Number of results that are always shown."""
_MIN_RELEVANCE, _MIN_RELEVANCE_OF_SEVERAL = 0.2, 0.1
"""Minimum relevance of a match for a query, or for one of several subqueries, which contain more words."""
_COMPARED = 5
_MANY = 1_000
"""Size of the corpus on which these thresholds were chosen."""


def above_threshold(query: str, ranked: Sequence[ResultGroup], level: RankerName) -> list[ResultGroup]:
    """The ranked results without weak ones, in the same order."""
    several = bool(subqueries(query))
    share = _SHARE_BY_MEANING
    if level == "lexical":
        share = _SHARE_OF_SEVERAL_BY_WORDS if several else _SHARE_BY_WORDS
    best = max((group.best.score for group in ranked), default=0.0)
    least = share * best
    return [group for number, group in enumerate(ranked) if number < _MIN_SHOWN or group.best.score >= least]


def unmet_subqueries(
    query: str,
    shown: Sequence[Findable],
    rarities: Callable[[str], Mapping[str, float]],
    corpus_size: int = _MANY,
) -> list[str]:
    """The subqueries that none of the first results matches; the whole query if no subquery has a match.

    `corpus_size` scales the threshold: in a small corpus, a missing word means little.
    """
    several = subqueries(query)
    scale = min(1.0, math.log(1 + corpus_size) / math.log(1 + _MANY))
    least = scale * (_MIN_RELEVANCE_OF_SEVERAL if several else _MIN_RELEVANCE)
    words = [word_weights(thing) for thing in (shown if several else shown[:_COMPARED])]
    missing = []
    for subquery in several or (query,):
        asked = rarities(without_values(subquery))
        if all(relevance(found, asked) < least for found in words):
            missing.append(subquery)
    return [query] if len(missing) == max(1, len(several)) else missing
