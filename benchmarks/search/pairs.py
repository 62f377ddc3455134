"""Short queries for two things at once, `commit history and diffs`: are both tools among the first few?

The pairs are made by rule, so that anyone can rebuild them from the tool definitions alone:

1. Only tools that read, list or search count (`actions.kind_of`): a query without a verb asks for those.
2. Each such tool gets up to two phrases of one to three words: its name without verbs, and the first sentence of its
   description without its verb, up to the first preposition or punctuation mark (`Shows the commit logs` gives `commit
   logs`). Stop words and words of the server's name are left out.
3. On each server the tools with a phrase, in the order of the listing, are paired: the first half with the second half,
   at most ten pairs. The query is `A and B`; the phrase is that of the name for every other pair, else that of the
   description. A pair whose phrases share a word is left out.
4. A part is met by any reading tool of the catalog that has the phrase: the query does not say which server is meant.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from benchmarks.search.corpora import Corpus, Entry, Query
from benchmarks.search.rankers import Level
from codemode_server.catalog.naming import words
from codemode_server.catalog.untrusted import first_sentence
from codemode_server.search.actions import is_polite, is_reading, is_verb, kind_of
from codemode_server.search.words import is_stop_word, stem

MAX_PAIRS_PER_SERVER = 10
MAX_PHRASE_WORDS = 3
_PHRASE_END = re.compile(
    r"[^\w\s'-]|\b(?:about|and|at|based|between|by|for|from|in|inside|into|of|on|or|that|to|under|using|via|which|with"
    r"|within|without|as|is|are|given|matching|including)\b",
    re.IGNORECASE,
)

_Key = frozenset[str]
"""A phrase by the stems of its words."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One query, and for each of its two parts the ids of the tools that meet it."""

    query: str
    parts: tuple[frozenset[str], frozenset[str]]

    def is_met(self, found: Sequence[str]) -> bool:
        """Whether both parts have one of their tools among these ids."""
        return all(part.intersection(found) for part in self.parts)


def pairs_of(corpus: Corpus) -> list[Pair]:
    """The pairs of a corpus, in the order of its servers."""
    by_server: dict[str, list[tuple[str, str]]] = defaultdict(list)
    holders: dict[_Key, set[str]] = defaultdict(set)
    for entry in corpus.entries:
        if not is_reading(kind_of(entry.name, entry.description)):
            continue
        phrases = name_phrase(entry), description_phrase(entry)
        if any(phrases):
            by_server[entry.server].append((phrases[0] or phrases[1], phrases[1] or phrases[0]))
        for phrase in filter(None, phrases):
            holders[_key(phrase)].add(entry.id)
    pairs: dict[str, Pair] = {}
    for found in by_server.values():
        half = (len(found) + 1) // 2
        taken = 0
        for number, two in enumerate(zip(found, found[half:], strict=False)):
            one, other = (phrases[number % 2] for phrases in two)
            query = f"{one} and {other}"
            if taken < MAX_PAIRS_PER_SERVER and query not in pairs and not _key(one) & _key(other):
                taken += 1
                pairs[query] = Pair(query, (frozenset(holders[_key(one)]), frozenset(holders[_key(other)])))
    return list(pairs.values())


def name_phrase(entry: Entry) -> str:
    """What the tool is about by its name, in one to three words; else empty."""
    return _phrase(" ".join(words(entry.name)), entry.server)


def description_phrase(entry: Entry) -> str:
    """The same by the first sentence of its description."""
    return _phrase(_PHRASE_END.split(first_sentence(entry.description, 160), maxsplit=1)[0], entry.server)


def _phrase(text: str, server: str) -> str:
    found = list(_content_words(text, server))
    return " ".join(found) if 1 <= len(found) <= MAX_PHRASE_WORDS else ""


def _content_words(text: str, server: str) -> Iterator[str]:
    of_server = {stem(word.lower()) for word in words(server)}
    for word in re.findall(r"[^\W\d_]{3,}", text.lower()):
        if not (is_verb(word) or is_stop_word(word) or is_polite(word) or stem(word) in of_server):
            yield word


def _key(phrase: str) -> _Key:
    return frozenset(map(stem, phrase.split()))


@dataclass(frozen=True, slots=True)
class PairFigures:
    """How many pairs of one set have both tools among the first results; shares of 1."""

    name: str
    ranking: str
    pairs: int
    both_at_3: float
    both_at_10: float
    interleaved_at_3: float
    """The same if each part were asked alone and the two answers taken in turn."""


def pair_figures(corpus: Corpus, level: Level) -> PairFigures:
    """One ranking on the pairs of a corpus."""
    pairs = pairs_of(corpus)
    parts = [part for pair in pairs for part in pair.query.split(" and ", 1)]
    asked = [Query(text, text, frozenset()) for text in (*(pair.query for pair in pairs), *parts)]
    found = level.ranked(corpus.asking(asked)).ids
    together, alone = found[: len(pairs)], found[len(pairs) :]
    in_turn = [list(chain.from_iterable(zip_longest(*two))) for two in zip(alone[::2], alone[1::2], strict=True)]
    return PairFigures(
        corpus.name,
        level.name,
        len(pairs),
        _share_met(pairs, together, 3),
        _share_met(pairs, together, 10),
        _share_met(pairs, [list(dict.fromkeys(filter(None, ids))) for ids in in_turn], 3),
    )


def _share_met(pairs: Sequence[Pair], found: Sequence[Sequence[str]], depth: int) -> float:
    return sum(pair.is_met(ids[:depth]) for pair, ids in zip(pairs, found, strict=True)) / len(pairs)
