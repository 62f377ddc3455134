"""Builds the vector rankers that the settings ask for, each with its encoder; loads nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding.cached_encoder import CachedEncoder, VectorCache
from codemode_server.search.encoding.client import LoadableEncoder, ProcessEncoder
from codemode_server.search.encoding.resolve_model import model_sources
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vector_ranker import VectorRanker
from codemode_server.search.vectors import Vectors
from codemode_server.settings import SearchSettings


def vector_rankers(settings: SearchSettings, cache: VectorCache | None = None) -> list[VectorRanker]:
    """The vector rankers that the settings ask for, from the weakest to the best."""
    if settings.ranker == "lexical":
        return []
    levels = [VectorRanker("static", TableEncoder())]
    if settings.ranker in ("auto", "semantic"):
        levels.append(VectorRanker("semantic", CachedEncoder(SemanticEncoder(settings), cache)))
    return levels


class TableEncoder:
    """A `LoadableEncoder` that reads the static table."""

    description = "static table"

    def __init__(self) -> None:
        self._table: StaticEncoder | None = None
        self._lock = threading.Lock()
        self.encoded = 0

    @property
    def name(self) -> str:
        return self._table.name if self._table else ""

    def load(self) -> None:
        with self._lock:
            self._table = StaticEncoder()

    def close(self) -> None:
        """It has nothing to close."""

    def documents(self, texts: Sequence[str]) -> Vectors:
        vectors = self._encoded(texts)
        self.encoded += len(texts)
        return vectors

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._encoded(texts)

    def _encoded(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            if self._table is None:
                raise EncoderFailed("it is not loaded", retry="limited")
            return self._table.documents(texts)


class SemanticEncoder:
    """A `LoadableEncoder` that uses the first model source that loads."""

    def __init__(self, settings: SearchSettings, *, may_download: bool = True) -> None:
        self._settings = settings
        self._may_download = may_download
        self._current: LoadableEncoder | None = None
        self._closing = threading.Lock()
        self._is_closed = False

    @property
    def description(self) -> str:
        if self._current is not None:
            return self._current.description
        endpoint = self._settings.endpoint
        return endpoint.model if endpoint else self._settings.model

    @property
    def name(self) -> str:
        return self._current.name if self._current else ""

    @property
    def encoded(self) -> int:
        return self._current.encoded if self._current else 0

    def load(self) -> None:
        if self._current is not None and self._current.name:
            self._current.load()
            return
        failures: list[EncoderFailed] = []
        for source in model_sources(self._settings, may_download=self._may_download):
            encoder = ProcessEncoder(source)
            with self._closing:
                self._current = encoder
                if self._is_closed:
                    raise EncoderFailed("it is closed")
            try:
                encoder.load()
            except EncoderFailed as error:
                failures.append(error)
            else:
                return
        raise failures[0]

    def close(self) -> None:
        with self._closing:
            self._is_closed = True
            current = self._current
        if current is not None:
            current.close()

    def documents(self, texts: Sequence[str]) -> Vectors:
        return self._loaded().documents(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._loaded().queries(texts)

    def _loaded(self) -> LoadableEncoder:
        if self._current is None:
            raise EncoderFailed("it is not loaded", retry="limited")
        return self._current
