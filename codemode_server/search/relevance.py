"""Drops weak results, which cost tokens and mislead, and finds subqueries without a match.

Ranking scores are comparable only within one query, so a match is measured by its words, weighted by rarity, and by its
cosine in the static table: a tool that shares no word with a query may still be right. All numbers were chosen on
queries with and without a matching tool (`benchmarks/SEARCH.md`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from codemode_server.catalog.catalog import Tool
from codemode_server.search.actions import is_verb, subqueries
from codemode_server.search.documents import Findable, fields_of
from codemode_server.search.ranker import Ranker
from codemode_server.search.ranking import Scored
from codemode_server.search.words import joined_terms, terms, without_values

_MIN_SHARE = 0.6
"""Results with a smaller share of the best score are hardly ever relevant."""
_MIN_SHOWN = 3
_NEARNESS = 2.0
_MIN_FIT, _MIN_FIT_OF_SEVERAL = 0.84, 0.7
"""Minimum of relevance and weighted cosine of a match for a query, or for one of several subqueries, which contain more
words."""
_COMPARED = 5
_MANY = 1_000
"""Size of the corpus on which these thresholds were chosen."""
_NAME, _DESCRIPTION, _PARAMETERS, _NOTES = 1.0, 0.7, 0.5, 0.3
"""Weight of a word of the subquery, by the best field that has it."""
_VERB = 0.4
"""Weight of a verb relative to a noun: not every tool that deletes matches `delete a tweet`."""
_MIN_WEIGHT = 0.05
"""Weight of a word that every document has."""


def above_threshold(ranked: Sequence[Scored]) -> list[Scored]:
    least = _MIN_SHARE * max((found.score for found in ranked), default=0.0)
    return [found for number, found in enumerate(ranked) if number < _MIN_SHOWN or found.score >= least]


def unmet_subqueries(query: str, shown: Sequence[Scored], ranker: Ranker) -> list[str]:
    """The subqueries that none of the first results matches, or the whole query; in a small corpus a missing word means
    little."""
    several = subqueries(query)
    scale = min(1.0, math.log(1 + ranker.size) / math.log(1 + _MANY))
    compared = shown if several else shown[:_COMPARED]
    least = _MIN_FIT_OF_SEVERAL if several else _MIN_FIT
    missing = []
    for row, subquery in enumerate(several or (query,), start=1):
        rarities = ranker.rarities(without_values(subquery))
        relevance = max(_relevance(_word_weights(scored.thing), rarities) for scored in compared)
        nearness = max(scored.nearness[row] for scored in compared)
        if relevance / scale + _NEARNESS * nearness < least:
            missing.append(subquery)
    return [query] if len(missing) == max(1, len(several)) else missing


def _relevance(weights: Mapping[str, float], rarities: Mapping[str, float]) -> float:
    """1 for a single rare word that is in the name. Divided by the square root of the total, since documents rarely
    match every word of a long subquery. Words that no document has lower the result."""
    if not rarities:
        return 1.0
    asked = {stem: max(_MIN_WEIGHT, rarity) * (_VERB if is_verb(stem) else 1.0) for stem, rarity in rarities.items()}
    total = sum(asked.values())
    matched = sum(weight * weights.get(stem, 0.0) for stem, weight in asked.items())
    known = sum(weight for stem, weight in asked.items() if rarities[stem] < 1) / total
    return float(matched / total**0.5 * known)


@lru_cache(maxsize=1_000)
def _word_weights(thing: Findable) -> Mapping[str, float]:
    fields = fields_of(thing)
    weights: dict[str, float] = {}
    for weight, text in (
        (_NOTES, fields.notes),
        (_PARAMETERS, " ".join((*fields.parameters, *fields.values))),
        (_DESCRIPTION, fields.description),
        (_NAME, f"{fields.name} {fields.title} {thing.server if isinstance(thing, Tool) else ''}"),
    ):
        weights |= dict.fromkeys(terms(text), weight)
    return weights | dict.fromkeys(joined_terms(fields.name), _NAME)
