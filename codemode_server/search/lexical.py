"""Lexical index: BM25F over names, titles, descriptions and parameters, by literal words and stems.

Robertson, Zaragoza, Taylor: "Simple BM25 extension to multiple weighted fields", 2004. Field lengths are normalized by
constants instead of corpus averages, so that the postings of one server are independent of the others and only a
server that changed is indexed again. Only the rarity of words depends on the whole corpus.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.nearest_names import mistyped
from codemode_server.search.actions import Kinds, kind_of
from codemode_server.search.documents import Collection, Fields, Findable, fields_name, fields_of
from codemode_server.search.words import joined_terms, name_term, query_terms, stems, synonyms, terms

Scores = NDArray[np.float32]

_K1, _B = 1.5, 0.7
_SYNONYM_WEIGHT = 0.4
_NEAR_WEIGHT = 1.4

Related = Callable[[str], Mapping[str, float]]
"""Returns the terms that count instead of a term, with their share of its weight."""


def nothing_related(term: str) -> Mapping[str, float]:
    return {}


class _Field(NamedTuple):
    weight: float
    usual_length: float
    """Number of words, about the median over 1,469 tools of 35 servers."""


_NAME = _Field(5.0, 4.0)
_SERVER = _Field(2.0, 5.0)
_DESCRIPTION = _Field(1.0, 25.0)
_PARAMETERS = _Field(0.5, 12.0)
_VALUES = _Field(0.5, 12.0)
_NOTES = _Field(0.25, 60.0)

_FEW = 300
"""Corpus size below which document frequencies are computed as if it had this size."""

_JOINED = 0.5
"""Weight of a pair of adjacent words of the name or description: tells `speech to text` from `text to speech`."""
_JOINED_CHARACTERS = 160
"""Length of the prefix of a description whose word pairs are indexed, about its first sentence."""

_ABOUT_NAME = _Field(3.0, 4.0)
_ABOUT = _Field(1.0, 25.0)
_ABOUT_TOOLS = _Field(0.5, 60.0)


class _Postings:
    """The documents that have each term, with the weight of the term in them, as parallel columns."""

    def __init__(self, frequencies: Sequence[dict[str, float]]) -> None:
        """`frequencies` has the weighted frequency of each term, one dict per document."""
        keys: list[str] = []
        counts: list[float] = []
        for weighted in frequencies:
            keys += weighted
            counts += weighted.values()
        self.terms = tuple(dict.fromkeys(keys))
        numbers = {term: number for number, term in enumerate(self.terms)}
        self.term_of = np.fromiter(map(numbers.__getitem__, keys), np.int32, len(keys))
        self.document_of = np.repeat(np.arange(len(frequencies), dtype=np.int32), list(map(len, frequencies)))
        weighed = np.array(counts, np.float32)
        self.impact: Scores = np.reciprocal(1 + np.float32(_K1) / weighed)


class _Columns:
    """The postings of several segments merged and sorted by term, for one lookup per query term."""

    def __init__(self, parts: Sequence[_Postings], first: Sequence[int], total: int) -> None:
        """`first` has the number of the first document of each part."""
        self._numbers: dict[str, int] = {}
        number_of = self._numbers
        term_of = []
        for part in parts:
            known = np.fromiter(
                (number_of.setdefault(term, len(number_of)) for term in part.terms), np.int32, len(part.terms)
            )
            term_of.append(known[part.term_of])
        by_term = np.concatenate([np.zeros(0, np.int32), *term_of])
        order = np.argsort(by_term, kind="stable")
        documents = [part.document_of + np.int32(start) for part, start in zip(parts, first, strict=True)]
        self._documents = np.concatenate([np.zeros(0, np.int32), *documents])[order]
        self._impacts = np.concatenate([np.zeros(0, np.float32), *(part.impact for part in parts)])[order]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(by_term, minlength=len(number_of)))])
        self.total = total

    def of(self, term: str) -> tuple[NDArray[np.int32], Scores]:
        """The documents that have a term, each once, and its weight in them before rarity."""
        number = self._numbers.get(term)
        if number is None:
            return _NOBODY
        here = slice(self._starts[number], self._starts[number + 1])
        return self._documents[here], self._impacts[here]

    def has(self, term: str) -> bool:
        return term in self._numbers

    @property
    def stems(self) -> list[str]:
        return [term for term in self._numbers if term[0] not in "=^"]

    @property
    def words(self) -> list[str]:
        return [term[1:] for term in self._numbers if term[0] == "=" and len(term) > 2 and term[1:].isalpha()]

    def scores(self, queries: Sequence[Mapping[str, float]], related: Related) -> Scores:
        of_term = {term: self._scores_of(term, related) for asked in queries for term in asked}
        rows = np.zeros((len(queries), self.total), np.float32)
        for row, asked in zip(rows, queries, strict=True):
            for term, weight in asked.items():
                row += weight * of_term[term]
        return rows

    def _scores_of(self, term: str, related: Related) -> Scores:
        """The score for one term. A document without it gets the best score of the related terms."""
        scores: Scores = np.zeros(self.total, np.float32)
        for other, share in related(term).items():
            documents, impacts = self.of(other)
            rarity = share * _rarity(len(documents), self.total)
            scores[documents] = np.maximum(scores[documents], rarity * impacts)
        documents, impacts = self.of(term)
        scores[documents] = _rarity(len(documents), self.total) * impacts
        return scores


def _rarity(having: int, total: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


_NOBODY: tuple[NDArray[np.int32], Scores] = (np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True, eq=False)
class Segment:
    collection: Collection
    postings: _Postings
    kinds: Kinds
    about: dict[str, float]
    """Term frequencies of the collection itself: its name, its description, the names of its tools."""

    @classmethod
    def of(cls, collection: Collection) -> Segment:
        named = terms(collection.name)
        fields = [fields_of(thing) for thing in collection.things]
        postings = _Postings([_weighted(one, named) for one in fields])
        names = " ".join(map(fields_name, collection.things[:200]))
        about = _frequencies(((_ABOUT_NAME, named), (_ABOUT, terms(collection.about)), (_ABOUT_TOOLS, terms(names))))
        kinds = np.array([kind_of(one.name, one.description) for one in fields], np.int8)
        return cls(collection, postings, kinds, about)


_MIN_LETTERS = 4
_MAX_LETTERS = 40
_SUGGESTION_WEIGHT = 0.7
_MAX_SUGGESTIONS = 3
_MAX_CACHED = 2_000
_MAX_COMPARED = 2_000


class Spelling:
    """The known words by their first letter, which is rarely wrong."""

    def __init__(self, known: Sequence[str]) -> None:
        by_letter: dict[str, set[str]] = {}
        for word in known:
            by_letter.setdefault(word[:1], set()).add(word)
        # Of a function that does not refer to this object, which holds all words and is soon replaced.
        self.suggestions = lru_cache(_MAX_CACHED)(partial(_suggestions, by_letter))
        """Suggested words with their weights; none for a word with anything but ASCII letters."""


def _suggestions(by_letter: Mapping[str, set[str]], word: str) -> dict[str, float]:
    if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS or not (word.isascii() and word.isalpha()):
        return {}
    alike = by_letter.get(word[:1], set())
    for place in range(_MIN_LETTERS, len(word) - 2):  # `createissue` → create, issue
        if word[:place] in alike and word[place:] in by_letter.get(word[place], ()):
            return dict.fromkeys((word[:place], word[place:]), _SUGGESTION_WEIGHT)
    compared = sorted(known for known in alike if len(known) >= _MIN_LETTERS)
    return dict.fromkeys(mistyped(word, compared, _MAX_SUGGESTIONS, _MAX_COMPARED), _SUGGESTION_WEIGHT)


class LexicalIndex:
    def __init__(self, collections: Sequence[Collection] = (), before: LexicalIndex | None = None) -> None:
        old: tuple[Segment, ...] = before.segments if before else ()
        known = {segment.collection.key: segment for segment in old}
        segments: list[Segment] = []
        for collection in collections:
            segment = known.get(collection.key)
            if segment is None or not segment.collection.is_same(collection):
                segment = Segment.of(collection)
            elif segment.collection is not collection:
                segment = dataclasses.replace(segment, collection=collection)
            segments.append(segment)
        self.segments: tuple[Segment, ...] = tuple(segments)
        sizes = [len(segment.collection.things) for segment in segments]
        first = (np.cumsum(sizes) - sizes).tolist() if sizes else []
        self.things: tuple[Findable, ...] = tuple(thing for segment in segments for thing in segment.collection.things)
        self.segment_of: NDArray[np.int32] = np.repeat(np.arange(len(segments), dtype=np.int32), sizes)
        self._things = _Columns([segment.postings for segment in segments], first, len(self.things))
        self._spelling = Spelling(self._things.stems)
        self.kinds: Kinds = np.concatenate([np.zeros(0, np.int8), *(segment.kinds for segment in segments)])
        """The kind of each thing, from `actions`."""
        self._segments = _Columns([_Postings([segment.about for segment in segments])], [0], len(segments))

    @property
    def words(self) -> list[str]:
        return self._things.words

    def scores(self, queries: Sequence[str], near: Related = nothing_related) -> Scores:
        """The score of each thing, a row for each query; 0 if no word matches, nor a synonym, nor a stem that is `near`
        a word. A thing whose name is the whole first query gets a bonus; a part of it (`diffs`) is rarely a name."""

        def related(term: str) -> Mapping[str, float]:
            if term[0] == "=":
                return {other: _NEAR_WEIGHT * share for other, share in near(term[1:]).items()}
            return dict.fromkeys(synonyms(term), _SYNONYM_WEIGHT)

        asked = [self._asked(query) for query in queries]
        asked[0][name_term(queries[0])] = 1.0
        return self._things.scores(asked, related)

    def _asked(self, query: str) -> dict[str, float]:
        asked = query_terms(query)
        for term in [term for term in asked if f"={term}" in asked and not self._things.has(term)]:
            if not self._things.has(f"={term}"):
                for meant, weight in self._spelling.suggestions(term).items():
                    asked.setdefault(meant, weight)
        return asked

    def has_words_of(self, query: str) -> bool:
        """True if every word of a query or a synonym of it is known; an unknown word may be misspelt or foreign."""
        return all(self._things.has(term) or synonyms(term) for term in stems(query))

    def rarities(self, text: str) -> dict[str, float]:
        """The rarity of each stem of a text, 0 to 1; 1 for a stem that nothing has. In a small corpus no word is
        common."""
        total = max(len(self.things), _FEW)
        having: dict[str, int] = {}
        for term in dict.fromkeys(stems(text)):
            meant = {} if self._things.has(term) else self._spelling.suggestions(term)
            having |= {one: len(self._things.of(one)[0]) for one in meant or [term]}
        return {term: _rarity(number, total) / _rarity(0, total) for term, number in having.items()}

    def segment_scores(self, query: str) -> Scores:
        scores: Scores = self._segments.scores([query_terms(query)], nothing_related)[0]
        return scores


def _weighted(fields: Fields, named: list[str]) -> dict[str, float]:
    found = _frequencies(
        (
            (_NAME, terms(fields.name)),
            (_SERVER, [*named, *terms(fields.title)]),
            (_DESCRIPTION, terms(fields.description)),
            (_PARAMETERS, terms(" ".join(fields.parameters))),
            (_VALUES, terms(" ".join(fields.values))),
            (_NOTES, terms(fields.notes)),
        )
    )
    found[name_term(fields.name)] = _NAME.weight
    in_name = joined_terms(fields.name)
    in_description = joined_terms(fields.description[:_JOINED_CHARACTERS])
    for field, joined in ((_NAME, in_name), (_DESCRIPTION, in_description)):
        for term in joined:
            found[term] = found.get(term, 0.0) + _JOINED * _share(field, 2 * (len(joined) + 1))
    return found


def _frequencies(fields: Iterable[tuple[_Field, list[str]]]) -> dict[str, float]:
    """The frequency of each term, weighted by field and field length."""
    frequencies: dict[str, float] = {}
    for field, found in fields:
        if found:
            share = _share(field, len(found))
            for term in found:
                frequencies[term] = frequencies.get(term, 0.0) + share
    return frequencies


def _share(field: _Field, length: int) -> float:
    """The weight of one of `length` terms in a field; each word yields two terms, its stem and itself."""
    return field.weight / (1 - _B + _B * length / (2 * field.usual_length))
