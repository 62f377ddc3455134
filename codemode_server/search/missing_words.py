"""Finds words of a short query that no result mentions, so that the answer can say so.

The relevance threshold (`thresholds.py`) must not reject a matching tool, so it also lets unrelated tools through. A
statement about words is weaker than "nothing fits", but it is always true, and the model can judge it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from codemode_server.catalog.catalog import Tool
from codemode_server.search.actions import is_polite, is_reading_verb
from codemode_server.search.documents import Findable
from codemode_server.search.relevance import word_weights
from codemode_server.search.subqueries import is_short, short_clauses, short_parts, subqueries
from codemode_server.search.words import is_stop_word, without_values

_MAX_WORDS_TOGETHER = 3
"""A matching tool usually has all words of a query of at most this length, and seldom those of a longer one."""
_MAX_NAMED = 3
_WORD = re.compile(r"[^\W_]+")


def missing_words(
    query: str,
    shown: Sequence[Findable],
    meanings: Callable[[str], frozenset[str]],
    is_known: Callable[[str], bool],
    resources: Sequence[frozenset[str]] = (),
) -> str:
    """A sentence that names the words of a query for one thing that no result has; empty if there are none.

    The answer begins with the first of `shown`. `meanings` returns the stems equivalent to a word, `is_known` whether
    any tool has a stem; `resources` are the stems of each resource that is shown beside the tools. Verbs such as `list`
    and `find` are ignored, since few descriptions contain them.
    """
    if not query.isascii() or len(query.split()) < 2 or not is_short(query) or subqueries(query) or short_parts(query):
        return ""
    whole = asked = {word: meanings(word) for word in _content_words(query)}
    if len(asked) > _MAX_WORDS_TOGETHER:
        asked = {word: stems for word, stems in asked.items() if not any(map(is_known, stems))}
    in_resources = frozenset().union(*resources)
    alone = [
        word
        for word, stems in asked.items()
        if not stems & in_resources and not any(_mentions(thing, {word: stems}) for thing in shown)
    ]
    if alone:
        missing = f"none of these mentions {' or '.join(map(_quoted, alone[:_MAX_NAMED]))}"
        others = [word for word in whole if word not in alone and _mentions(shown[0], {word: whole[word]})]
        return f"{missing}; the first matches {', '.join(map(_quoted, others[:_MAX_NAMED]))}" if others else missing
    if resources or any(_mentions(thing, asked) for thing in shown):
        return ""
    *others, last = map(_quoted, asked)
    return f"none of these mentions {'both' if len(others) == 1 else 'all of'} {', '.join(others)} and {last}"


def _quoted(word: str) -> str:
    return f'"{word}"'


def doubtful_clauses(
    query: str, meanings: Callable[[str], frozenset[str]], is_known: Callable[[str], bool]
) -> list[str]:
    """The short clauses of a query with a word that no tool has, in any of its meanings."""
    return [
        clause
        for clause in short_clauses(query)
        if clause.isascii() and any(not any(map(is_known, meanings(word))) for word in _content_words(clause))
    ]


def _content_words(query: str) -> list[str]:
    return [word for word in dict.fromkeys(_WORD.findall(without_values(query))) if not _is_ignored(word.lower())]


def _is_ignored(word: str) -> bool:
    return is_stop_word(word) or is_polite(word) or is_reading_verb(word)


def _mentions(thing: Findable, asked: Mapping[str, frozenset[str]]) -> bool:
    """Whether it has all of these words, by an equivalent stem or literally."""
    found = word_weights(thing)
    if all(any(stem in found for stem in stems) for stems in asked.values()):
        return True
    text = thing.stub.source.lower() if isinstance(thing, Tool) else ""
    return all(word.lower() in text for word in asked)
