"""Vectors of all documents and collections by one encoder, and their cosine similarity to queries."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.documents import VECTOR_WEIGHTS, collection_text, fields_of, vector_texts
from codemode_server.search.lexical import LexicalIndex, Scores, Segment
from codemode_server.search.static import StaticEncoder
from codemode_server.search.words import stem

Vectors = NDArray[np.float32]
"""A row of unit length for each text; a row of zeros for a text without known words."""
_MAX_NEAR_WORDS = 12
_MIN_COSINE = 0.3
_MAX_CACHED = 2_000


class Encoder(Protocol):
    """Computes vectors of texts. Blocking: called in threads. It is loaded first, and again after a failure. Every
    method but `close` raises `EncoderFailed`, whose `may_retry` says whether to try again."""

    @property
    def name(self) -> str:
        """Identifies the model and everything that its vectors depend on; the key of stored vectors."""

    @property
    def description(self) -> str:
        """The model and how it is run, for people."""

    def load(self) -> None:
        """Loads the model."""

    def documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of tools, skills and servers, a row each."""

    def queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of queries and subqueries, a row each."""

    def close(self) -> None:
        """Final; thread-safe. Callers that wait for it get an `EncoderFailed` at once."""


class EncoderBusy(EncoderFailed):
    """Raised when a query would wait too long for the encoder; the encoder is fine."""

    code = "encoder_busy"

    def __init__(self) -> None:
        super().__init__("it is busy", may_retry=True)


class NearWords:
    """The words of a corpus that mean about the same as a word of a query, by the static table: `photo`, `image`."""

    def __init__(self, encoder: StaticEncoder, words: Sequence[str], before: NearWords | None = None) -> None:
        """Reuses the vectors of the words of `before`. Words that the table has only in pieces are left out: they are
        joined names, and there is no limit to them."""
        row_of = {word: row for row, word in enumerate(before.words)} if before is not None else {}
        new = [word for word in words if word not in row_of and encoder.has_word(word)]
        vectors = encoder.documents(new)
        if before is not None:
            vectors = np.concatenate([before.vectors, vectors])
        row_of |= {word: row for row, word in enumerate(new, len(row_of))}
        self.words: tuple[str, ...] = tuple(word for word in words if word in row_of)
        self.vectors: Vectors = vectors[[row_of[word] for word in self.words]]
        # Of a function that does not refer to this object, which is as large as all its vectors and soon replaced.
        near = partial(_near, encoder, self.vectors, [stem(word) for word in self.words])
        self.of = lru_cache(_MAX_CACHED)(near)
        """The stems of the nearest words with a weight, 0 to 1."""


def _near(encoder: StaticEncoder, vectors: Vectors, stems: Sequence[str], word: str) -> dict[str, float]:
    if not stems:
        return {}
    cosines = vectors @ encoder.queries([word])[0]
    found: dict[str, float] = {}
    likely = np.flatnonzero(cosines > _MIN_COSINE)
    for number in likely[np.argsort(-cosines[likely], kind="stable")[:_MAX_NEAR_WORDS]]:
        found.setdefault(stems[number], float(cosines[number] - _MIN_COSINE) / (1 - _MIN_COSINE))
    found.pop(stem(word), None)
    return found


class _Part(NamedTuple):
    """The vectors of one segment."""

    things: Vectors
    whole: Vectors
    """One row."""


class VectorIndex:
    def __init__(self, encoder: Encoder, index: LexicalIndex, before: VectorIndex | None = None) -> None:
        """Reuses the vectors of unchanged collections from `before`, which must have the same encoder."""
        self.encoder = encoder
        self.index = index
        parts = [(before and before.part(segment)) or _encoded(encoder, segment) for segment in index.segments]
        none: Vectors = np.zeros((0, 1), np.float32)
        self.things: Vectors = np.concatenate([part.things for part in parts]) if parts else none
        self.segments: Vectors = np.concatenate([part.whole for part in parts]) if parts else none
        ends = itertools.accumulate(len(part.things) for part in parts)
        # An unchanged segment keeps its postings object.
        self._places = {
            id(it.postings): (number, end) for number, (it, end) in enumerate(zip(index.segments, ends, strict=True))
        }
        self.near_words: NearWords | None = None
        """Only with the static table: a model would need minutes for the words of a corpus."""
        if isinstance(encoder, StaticEncoder):
            self.near_words = NearWords(encoder, index.words, before.near_words if before is not None else None)

    def part(self, segment: Segment) -> _Part | None:
        """The vectors of a segment; None if it is not part of the index."""
        number, end = self._places.get(id(segment.postings), (None, 0))
        if number is None:
            return None
        return _Part(self.things[end - len(segment.collection.things) : end], self.segments[number : number + 1])

    def similarity(self, queries: Sequence[str]) -> tuple[Scores, Scores]:
        """The cosine of each thing, and of each segment as a whole, with each query; a row per query."""
        texts = list(dict.fromkeys(queries))
        asked = self.encoder.queries(texts)[[texts.index(query) for query in queries]]
        return asked @ self.things.T, asked @ self.segments.T


def _encoded(encoder: Encoder, segment: Segment) -> _Part:
    things = segment.collection.things
    texts = [text for thing in things for text in vector_texts(segment.collection, fields_of(thing))]
    vectors = encoder.documents([*texts, collection_text(segment.collection)])
    each = vectors[:-1].reshape(len(things), len(VECTOR_WEIGHTS), vectors.shape[1])
    mixed = np.einsum("nwd,w->nd", each, np.array(VECTOR_WEIGHTS, np.float32))
    lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
    return _Part(np.divide(mixed, lengths, out=np.zeros_like(mixed), where=lengths > 0), vectors[-1:])
