"""Absolute relevance of a document to a subquery; ranking scores are comparable only within one query.

Uses words alone, weighted by rarity, so that it means the same with every ranker. The weights were chosen on queries
with and without a matching tool (`benchmarks/SEARCH.md`).
"""

from __future__ import annotations

from collections.abc import Mapping

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.search.actions import is_verb
from codemode_server.search.documents import Findable, fields_of
from codemode_server.search.words import joined_terms, terms

_NAME, _DESCRIPTION, _PARAMETERS, _NOTES = 1.0, 0.7, 0.5, 0.3
"""Weight of a word of the subquery, by the best field that has it."""
_VERB = 0.4
"""Weight of a verb relative to a noun: not every tool that deletes matches `delete a tweet`."""
_MIN_WEIGHT = 0.05
"""Weight of a word that every document has."""


def relevance(found: Mapping[str, float], rarities: Mapping[str, float]) -> float:
    """Relevance of a document with the word weights `found` to a subquery with these `rarities`.

    0 if no word matches, 1 for a single rare word that is in the name. Divided by the square root of the total, since
    documents rarely match every word of a long subquery. Words that no document has lower the result.
    """
    if not rarities:
        return 1.0
    asked = {stem: max(_MIN_WEIGHT, rarity) * (_VERB if is_verb(stem) else 1.0) for stem, rarity in rarities.items()}
    total = sum(asked.values())
    matched = sum(counts * found.get(stem, 0.0) for stem, counts in asked.items())
    known = sum(counts for stem, counts in asked.items() if rarities[stem] < 1) / total
    return float(matched / total**0.5 * known)


def word_weights(thing: Findable) -> Mapping[str, float]:
    """The weight of each word of a document."""
    return _weights_of_tool(thing) if isinstance(thing, Tool) else _weights_of(thing)


@stored_in_value
def _weights_of_tool(tool: Tool) -> Mapping[str, float]:
    return _weights_of(tool)


def _weights_of(thing: Findable) -> dict[str, float]:
    fields = fields_of(thing)
    weights: dict[str, float] = {}
    for weight, text in (
        (_NOTES, fields.notes),
        (_PARAMETERS, " ".join(fields.parameters)),
        (_DESCRIPTION, fields.description),
        (_NAME, f"{fields.name} {fields.title} {thing.server if isinstance(thing, Tool) else ''}"),
    ):
        weights |= dict.fromkeys(terms(text), weight)
    return weights | dict.fromkeys(joined_terms(fields.name), _NAME)
