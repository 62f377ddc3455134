"""Whether something fits a want at all: scores only compare the results of one query with each other.

Read off the words alone, rare ones counting more, so it means the same at every level. It was chosen on questions for
which there is no tool, and on those for which there is one (`benchmarks/SEARCH.md`).
"""

from __future__ import annotations

from collections.abc import Mapping

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.search.actions import is_verb
from codemode_server.search.documents import Findable, fields_of
from codemode_server.search.words import joined_terms, joined_with_stop_words, terms

_NAME, _DESCRIPTION, _PARAMETERS, _NOTES = 1.0, 0.7, 0.5, 0.3
"""What a word of the want counts for, by the best field that has it."""
_VERB = 0.4
"""What a verb counts for beside a noun: `delete a tweet` is not fit by whatever deletes."""
_LEAST = 0.05
"""What a word counts for that everything has."""


def fit(found: Mapping[str, float], rarities: Mapping[str, float]) -> float:
    """How well a thing of these words meets a want whose stems are as rare as this says: 0 if no word is met, 1 for
    one rare word that is in the name.

    More words met are more, while long wants are rarely met in every word. Words that nothing at all has say that what
    is asked for is not there.
    """
    if not rarities:
        return 1.0  # nothing is asked for
    asked = {stem: max(_LEAST, rarity) * (_VERB if is_verb(stem) else 1.0) for stem, rarity in rarities.items()}
    total = sum(asked.values())
    met = sum(counts * found.get(stem, 0.0) for stem, counts in asked.items())
    known = sum(counts for stem, counts in asked.items() if rarities[stem] < 1) / total
    return float(met / total**0.5 * known)


def words_of(thing: Findable) -> Mapping[str, float]:
    """What each word of a thing counts for."""
    return _words_of_tool(thing) if isinstance(thing, Tool) else _words_of(thing)


@stored_in_value
def _words_of_tool(tool: Tool) -> Mapping[str, float]:
    return _words_of(tool)


def _words_of(thing: Findable) -> dict[str, float]:
    fields = fields_of(thing)
    weights: dict[str, float] = {}
    for weight, text in (
        (_NOTES, fields.notes),
        (_PARAMETERS, " ".join(fields.parameters)),
        (_DESCRIPTION, fields.description),
        (_NAME, f"{fields.name} {fields.title} {thing.server if isinstance(thing, Tool) else ''}"),
    ):
        weights |= dict.fromkeys(terms(text), weight)
    return weights | dict.fromkeys(joined_terms(fields.name) + joined_with_stop_words(fields.name), _NAME)
