"""BM25 over the words of names, titles, descriptions and parameters, as written and by their stems.

BM25F (Robertson, Zaragoza, Taylor: "Simple BM25 extension to multiple weighted fields", 2004). Field lengths are
compared with constants, not with the averages of the corpus: so the postings of one server depend on no other, and a
server that changes is the only one whose texts are read again. Only how rare a word is depends on all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codemode_server.search.actions import Kinds, kinds_of
from codemode_server.search.dictionaries import signs
from codemode_server.search.documents import Collection, Fields, Findable, fields_name, fields_of
from codemode_server.search.named import Names
from codemode_server.search.spelling import Spelling
from codemode_server.search.synonyms import synonyms
from codemode_server.search.words import glued_terms, query_terms, stems, terms

Scores = NDArray[np.float32]

_K1, _B = 1.5, 0.7
_SYNONYM_WEIGHT = 0.4
"""Of a word that stands for the one asked for, where that is missing."""


class _Field(NamedTuple):
    weight: float
    usual_length: float
    """Words, about what 1,469 tools of 35 servers have in the middle."""


_NAME = _Field(5.0, 4.0)
_SERVER = _Field(2.0, 5.0)
_DESCRIPTION = _Field(1.0, 25.0)
_PARAMETERS = _Field(0.5, 12.0)
_NOTES = _Field(0.25, 60.0)

_FEW = 300
"""Things among which it can be told how common a word is."""

_GLUED = 0.5
"""Of a word of the name or the description, two that stand together taken as one: `speech to text` is not `text to
speech`."""
_GLUED_CHARACTERS = 160
"""Of a description, about its first sentence."""

_ABOUT_NAME = _Field(3.0, 4.0)
_ABOUT = _Field(1.0, 25.0)
_ABOUT_TOOLS = _Field(0.5, 60.0)


class _Postings:
    """Which documents have a term and how much it counts for them, for many terms: columns sorted by term."""

    def __init__(self, frequencies: Sequence[dict[str, float]]) -> None:
        """Of each document, how often each term occurs, weighted by field and length; `math.inf` for a term that is
        there or not."""
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
    """The postings of several parts as one, so that a query looks in one place."""

    def __init__(self, parts: Sequence[_Postings], first: Sequence[int], total: int) -> None:
        """`first` is the number of each part's first document."""
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
        """The documents that have a term, each once, and how much it counts for them without its rarity."""
        number = self._numbers.get(term)
        if number is None:
            return _NOBODY
        here = slice(self._starts[number], self._starts[number + 1])
        return self._documents[here], self._impacts[here]

    def whole(self) -> Scores:
        """Of each document, what it would score for a query of all its terms; never 0."""
        having = np.diff(self._starts)
        rarity = np.log(1 + (self.total - having + 0.5) / (having + 0.5))
        sums = np.bincount(self._documents, np.repeat(rarity, having) * self._impacts, minlength=self.total)
        return np.maximum(sums, 1e-6).astype(np.float32)

    def rarity(self, having: int) -> float:
        return _rarity(having, self.total)

    def has(self, term: str) -> bool:
        return term in self._numbers

    @property
    def stems(self) -> list[str]:
        """All terms that are no words as written."""
        return [term for term in self._numbers if term[0] != "="]

    def scores(self, asked: Mapping[str, float], *, with_synonyms: bool) -> Scores:
        """BM25 of each document."""
        scores: Scores = np.zeros(self.total, np.float32)
        for term, weight in asked.items():
            documents, impacts = self.of(term)
            scores[documents] += weight * self.rarity(len(documents)) * impacts
            if with_synonyms and (others := synonyms(term)):
                best: Scores = np.zeros(self.total, np.float32)
                for other in others:
                    holders, theirs = self.of(other)
                    best[holders] = np.maximum(best[holders], self.rarity(len(holders)) * theirs)
                best[documents] = 0
                scores += weight * _SYNONYM_WEIGHT * best
        return scores


def _rarity(having: int, total: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


_NOBODY: tuple[NDArray[np.int32], Scores] = (np.zeros(0, np.int32), np.zeros(0, np.float32))


@dataclass(frozen=True, eq=False)
class Segment:
    """The part of the index that one collection makes."""

    collection: Collection
    fields: tuple[Fields, ...]
    postings: _Postings
    names: _Postings
    """Which stems are in the names."""
    kinds: Kinds
    about: dict[str, float]
    """The collection itself as a document: its name, what it says of itself, the names of its tools."""

    @classmethod
    def of(cls, collection: Collection) -> Segment:
        named = terms(collection.name)
        fields = tuple(map(fields_of, collection.things))
        postings = _Postings([_weighted(one, named) for one in fields])
        named_by = _Postings([dict.fromkeys(stems(one.name), math.inf) for one in fields])
        names = " ".join(map(fields_name, collection.things[:200]))
        about = _frequencies(((_ABOUT_NAME, named), (_ABOUT, terms(collection.about)), (_ABOUT_TOOLS, terms(names))))
        kinds = kinds_of([(one.name, one.description) for one in fields])
        return cls(collection, fields, postings, named_by, kinds, about)


class LexicalIndex:
    """An immutable index of everything that can be found."""

    def __init__(self, collections: Sequence[Collection] = (), before: LexicalIndex | None = None) -> None:
        """Of the index before, what did not change is taken over."""
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
        sizes = [len(segment.fields) for segment in segments]
        first = (np.cumsum(sizes) - sizes).tolist() if sizes else []
        self.things: tuple[Findable, ...] = tuple(thing for segment in segments for thing in segment.collection.things)
        self.segment_of: NDArray[np.int32] = np.repeat(np.arange(len(segments), dtype=np.int32), sizes)
        """The number of the segment of each thing."""
        self._things = _Columns([segment.postings for segment in segments], first, len(self.things))
        self.names = Names(collections)
        self.kinds: Kinds = np.concatenate([np.zeros(0, np.int8), *(segment.kinds for segment in segments)])
        """What each thing does, as `actions` tells them apart."""
        self._names = _Columns([segment.names for segment in segments], first, len(self.things))
        self._names_whole = self._names.whole()
        self._segments = _Columns([_Postings([segment.about for segment in segments])], [0], len(segments))

    def scores(self, query: str) -> Scores:
        """How well the words of each thing fit; 0 where none does."""
        return self._things.scores(self._asked(query), with_synonyms=True)

    def fit(self, query: str, subject: str = "") -> tuple[Scores, Scores]:
        """How well the words of each thing fit, 0 where none does, and how much of its name was asked for, 0 to 1, rare
        words counting more: `list_keys` says more of what it does than `keys` asks for."""
        asked = self._asked(query, subject)
        scores = self._things.scores(asked, with_synonyms=True)
        covered = self._names.scores(asked, with_synonyms=True)
        return scores, np.minimum(covered / self._names_whole, np.float32(1))

    def _asked(self, query: str, subject: str = "") -> dict[str, float]:
        """The terms of a query; of a word that nothing has, those that may be meant."""
        asked = query_terms(query, subject)
        for term in [term for term in asked if f"={term}" in asked and not self._things.has(term)]:
            if not self._things.has(f"={term}"):
                for meant, weight in self._spelling.meant(term).items():
                    asked.setdefault(meant, weight)
        return asked

    def warm(self) -> None:
        """Make now what the first query would wait for."""
        _ = self._spelling
        signs()

    @cached_property
    def _spelling(self) -> Spelling:
        return Spelling(self._things.stems)

    def rarities(self, text: str) -> dict[str, float]:
        """How rare each stem of a text is, 0 to 1; 1 is in nothing that can be found, and looks like nothing there.
        Among few things, no word that is there is common."""
        total = max(len(self.things), _FEW)
        found: dict[str, float] = {}
        for term in dict.fromkeys(stems(text)):
            meant = [term] if self._things.has(term) else self._spelling.meant(term)
            having = {one: len(self._things.of(one)[0]) for one in meant or [term]}
            found |= {one: _rarity(number, total) / _rarity(0, total) for one, number in having.items()}
        return found

    def says(self, word: str) -> bool:
        """Whether all parts of a word stand somewhere as written."""
        written = [term for term in terms(word) if term[0] == "="]
        return bool(written) and all(map(self._things.has, written))

    def segment_scores(self, query: str) -> Scores:
        """How well the words of each segment as a whole fit."""
        return self._segments.scores(query_terms(query), with_synonyms=False)


def _weighted(fields: Fields, named: list[str]) -> dict[str, float]:
    found = _frequencies(
        (
            (_NAME, terms(fields.name)),
            (_SERVER, [*named, *terms(fields.title)]),
            (_DESCRIPTION, terms(fields.description)),
            (_PARAMETERS, terms(" ".join(fields.parameters))),
            (_NOTES, terms(fields.notes)),
        )
    )
    for field, text in ((_NAME, fields.name), (_DESCRIPTION, fields.description[:_GLUED_CHARACTERS])):
        glued = list(glued_terms(text))
        for term in glued:
            found[term] = found.get(term, 0.0) + _GLUED * _share(field, 2 * (len(glued) + 1))
    return found


def _frequencies(fields: Iterable[tuple[_Field, list[str]]]) -> dict[str, float]:
    """How often each term occurs, by the weight of the field and its length."""
    frequencies: dict[str, float] = {}
    for field, found in fields:
        if found:
            share = _share(field, len(found))
            for term in found:
                frequencies[term] = frequencies.get(term, 0.0) + share
    return frequencies


def _share(field: _Field, length: int) -> float:
    """What one of so many terms counts for; each word gives two, its stem and itself."""
    return field.weight / (1 - _B + _B * length / (2 * field.usual_length))
