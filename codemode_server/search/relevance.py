"""Drops weak results, which cost tokens and mislead, finds subqueries without a match, and groups equivalent tools.

Ranking scores are comparable only within one query, so a match is measured by its words, weighted by rarity, and by its
cosine in the static table: a tool that shares no word with a query may still be right. All numbers were chosen on
queries with and without a matching tool (`benchmarks/SEARCH.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.naming import words
from codemode_server.search.actions import is_verb, subqueries
from codemode_server.search.documents import Findable, fields_of
from codemode_server.search.ranker_stack import RankerName, RankerStack
from codemode_server.search.ranking import Scored
from codemode_server.search.words import joined_terms, stem, stems, terms, without_values

_MIN_SHARE_BY_MEANING, _MIN_SHARE_BY_WORDS, _MIN_SHARE_OF_SEVERAL_BY_WORDS = 0.6, 0.5, 0.45
"""Results with a smaller share of the best score are hardly ever relevant. The share with vectors is larger, since
every text is somewhat similar to a query."""
_MIN_SHOWN = 3
_MIN_RELEVANCE, _MIN_RELEVANCE_OF_SEVERAL = 0.2, 0.1
"""Minimum relevance of a match for a query, or for one of several subqueries, which contain more words."""
_NEARNESS = 2.0
_MIN_FIT, _MIN_FIT_OF_SEVERAL = 0.84, 0.7
"""Minimum of relevance and weighted cosine, where there are vectors."""
_COMPARED = 5
_MANY = 1_000
"""Size of the corpus on which these thresholds were chosen."""
_NAME, _DESCRIPTION, _PARAMETERS, _NOTES = 1.0, 0.7, 0.5, 0.3
"""Weight of a word of the subquery, by the best field that has it."""
_VERB = 0.4
"""Weight of a verb relative to a noun: not every tool that deletes matches `delete a tweet`."""
_MIN_WEIGHT = 0.05
"""Weight of a word that every document has."""


def above_threshold(query: str, ranked: Sequence[Scored], level: RankerName) -> list[Scored]:
    share = _MIN_SHARE_BY_MEANING
    if level == "lexical":
        share = _MIN_SHARE_OF_SEVERAL_BY_WORDS if subqueries(query) else _MIN_SHARE_BY_WORDS
    least = share * max((found.score for found in ranked), default=0.0)
    return [found for number, found in enumerate(ranked) if number < _MIN_SHOWN or found.score >= least]


def unmet_subqueries(query: str, shown: Sequence[Scored], rankers: RankerStack) -> list[str]:
    """The subqueries that none of the first results matches, or the whole query; in a small corpus a missing word means
    little."""
    several = subqueries(query)
    scale = min(1.0, math.log(1 + rankers.size) / math.log(1 + _MANY))
    compared = shown if several else shown[:_COMPARED]
    least = _MIN_RELEVANCE_OF_SEVERAL if several else _MIN_RELEVANCE
    if any(scored.nearness for scored in compared):
        least = _MIN_FIT_OF_SEVERAL if several else _MIN_FIT
    missing = []
    for row, subquery in enumerate(several or (query,), start=1):
        rarities = rankers.rarities(without_values(subquery))
        relevance = max(_relevance(_word_weights(scored.thing), rarities) for scored in compared)
        nearness = max(scored.nearness[row] if scored.nearness else 0.0 for scored in compared)
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


_MAX_ALSO = 20
_READ_CHARACTERS = 400
_MIN_OVERLAP, _MIN_OVERLAP_WITH_PARAMETERS = 0.8, 0.5
"""Minimum share of common words in two descriptions: without common parameters, and with `_MANY_PARAMETERS` of them."""
_MIN_PARAMETER_OVERLAP = 0.5
_MANY_PARAMETERS = 3


class _WordSets(NamedTuple):
    name: frozenset[str]
    """Without those of its server, unless there are no others."""
    server: frozenset[str]
    parameters: frozenset[str]
    summary: frozenset[str]
    description: frozenset[str]


def deduplicated(ranked: Iterable[Scored], is_available: Callable[[Tool], bool]) -> list[Scored]:
    """One of each group, in the order of their best members: the first tool that can be called, else the first. Those
    of one server are never equivalent, and words of its own name distinguish services: GitHub's issues, GitLab's."""
    groups: list[list[Scored]] = []
    by_name: dict[frozenset[str], list[list[Scored]]] = {}
    for scored in ranked:
        tool = scored.thing
        same_name = by_name.setdefault(_word_sets(tool).name, []) if isinstance(tool, Tool) else []
        group = next((group for group in same_name if isinstance(tool, Tool) and _belongs(group, tool)), None)
        if group is None:
            group = []
            groups.append(group)
            same_name.append(group)
        group.append(scored)
    return [_shown(group, is_available) for group in groups]


def _shown(alike: list[Scored], is_available: Callable[[Tool], bool]) -> Scored:
    best = next((one for one in alike if isinstance(one.thing, Tool) and is_available(one.thing)), alike[0])
    others = (one.thing for one in alike if one is not best)
    return replace(best, also=tuple(thing for thing in others if isinstance(thing, Tool))[:_MAX_ALSO])


def _belongs(group: list[Scored], tool: Tool) -> bool:
    members = [one.thing for one in group if isinstance(one.thing, Tool)]
    if any(member.server == tool.server for member in members):
        return False
    one, other = _word_sets(members[0]), _word_sets(tool)
    if not one.description or not other.description:
        return False
    parameters = _overlap(one.parameters, other.parameters)
    if parameters < _MIN_PARAMETER_OVERLAP or (_names_itself(one, other) and _names_itself(other, one)):
        return False
    shared = min(len(one.parameters & other.parameters), _MANY_PARAMETERS) / _MANY_PARAMETERS
    needed = _MIN_OVERLAP - (_MIN_OVERLAP - _MIN_OVERLAP_WITH_PARAMETERS) * parameters * shared
    return max(_overlap(one.summary, other.summary), _overlap(one.description, other.description)) >= needed


def _names_itself(one: _WordSets, other: _WordSets) -> bool:
    """True if the description of `one` names its own server and the description of `other` does not."""
    return bool(one.server & one.description - other.description - other.server)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


@lru_cache(maxsize=1_000)
def _word_sets(tool: Tool) -> _WordSets:
    schema, description = tool.definition.input_schema, tool.definition.description
    properties = schema.get("properties") if isinstance(schema, dict) else None
    parameters = list(properties)[:100] if isinstance(properties, dict) else []
    name, server = ({stem(word.lower()) for word in words(text)} for text in (tool.raw_name, tool.server))
    return _WordSets(
        frozenset(name - server or name),
        frozenset(stems(tool.server)),
        frozenset("".join(letter for letter in str(one).lower() if letter.isalnum()) for one in parameters),
        frozenset(stems(tool.summary)),
        frozenset(stems(description[:_READ_CHARACTERS])),
    )
