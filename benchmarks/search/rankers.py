"""The rankings that are compared: our levels, by the product's own code."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.search.corpora import Corpus, catalog_of, ids_of
from benchmarks.search.encoders import Cached, Unavailable, encoder_of
from benchmarks.search.metrics import DEPTH
from codemode_server.catalog.catalog import Tool
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank
from codemode_server.search.vectors import Encoder, VectorIndex

LEVELS = ("lexical", "static", "semantic")
Rankings = list[list[str]]
"""For each query the ids of what was found, best first."""


@dataclass(frozen=True)
class Ranked:
    """What a ranking gave for each query, and its scores where it tells them."""

    ids: Rankings
    scores: list[list[float]]


class Level:
    """One level of the product."""

    def __init__(self, name: str) -> None:
        """
        Raises:
            Unavailable: it can't load here.
        """
        self.name = name
        self._loaded = None if name == "lexical" else encoder_of(name)
        self._beside = encoder_of("static") if name == "semantic" else None
        self._kept = Cached(self._loaded) if self._loaded and name == "semantic" else None

    @property
    def encoder(self) -> Encoder | None:
        return self._kept or self._loaded

    def close(self) -> None:
        if self._kept:
            self._kept.save()
        if self._loaded:
            self._loaded.close()

    def ranked(self, corpus: Corpus) -> Ranked:
        catalog = catalog_of(corpus.entries)
        ids = ids_of(catalog, corpus.entries)
        index = LexicalIndex(collections(catalog))
        vectors = VectorIndex(self.encoder, index) if self.encoder is not None else None
        beside = VectorIndex(self._beside, index) if self._beside is not None else None
        found = [rank(index, vectors, query.text, None, DEPTH, second_vectors=beside) for query in corpus.queries]
        if self._kept:
            self._kept.save()
        return Ranked(
            [[ids[one.thing.server, one.thing.name] for one in each if isinstance(one.thing, Tool)] for each in found],
            [[one.score for one in each] for each in found],
        )


__all__ = ["LEVELS", "Level", "Ranked", "Rankings", "Unavailable"]
