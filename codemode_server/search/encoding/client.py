"""An encoder in a separate process: can be loaded, fail, be reloaded, and be closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding.frames import Message
from codemode_server.search.encoding.process import WorkerProcess
from codemode_server.search.encoding.resolve_model import ModelSource
from codemode_server.search.vectors import Encoder, Vectors

_LOAD_SECONDS = 180.0
_DOWNLOAD_SECONDS = 3_600.0
_DOCUMENTS_SECONDS = 300.0
_QUERY_SECONDS = 8.0
_BUSY_SECONDS = 2.0
"""Maximum time that a query waits for another query or a batch of documents."""
_MAX_CHARACTERS = 16_000
"""Limit for each text."""
_MAX_DIMENSIONS = 65_536


class EncoderBusy(EncoderFailed):
    """Raised when a query would wait too long for the encoder; the encoder is fine."""

    code = "encoder_busy"

    def __init__(self) -> None:
        super().__init__("it is busy", retry="transient")


class LoadableEncoder(Encoder, Protocol):
    """An encoder that must be loaded first, and can be reloaded after a failure."""

    @property
    def description(self) -> str:
        """The model and how it is run, for people."""

    @property
    def encoded(self) -> int:
        """Number of document texts encoded so far, for progress reports."""

    def load(self) -> None:
        """Blocking.

        Raises:
            EncoderFailed: it can't be loaded.
        """

    def close(self) -> None:
        """Final; thread-safe. Callers that wait for it get an `EncoderFailed` at once."""


class ProcessEncoder:
    """A `LoadableEncoder` in a process that `load` starts."""

    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._process: WorkerProcess | None = None
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False
        self._name = ""
        self._dimensions = 0
        self.encoded = 0

    @property
    def description(self) -> str:
        return self._source.description

    @property
    def name(self) -> str:
        return self._name

    @property
    def pid(self) -> int | None:
        """Process id of the encoder."""
        return self._process.pid if self._process else None

    def load(self) -> None:
        with self._lock:
            self._end()
            process = WorkerProcess(with_network=self._source.needs_network)
            with self._closing:
                self._process = process
                is_closed = self._is_closed
            if is_closed:
                self._end()
                raise EncoderFailed("it is closed")
            seconds = _DOWNLOAD_SECONDS if self._source.may_download else _LOAD_SECONDS
            name = self._ask({"do": "load", "source": self._source.load}, seconds).fields.get("name")
            self._dimensions = 0
            self._name = f"{self._source.name} {str(name)[:64]}"

    def documents(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            vectors = self._vectors("documents", texts, _DOCUMENTS_SECONDS)
        self.encoded += len(texts)
        return vectors

    def queries(self, texts: Sequence[str]) -> Vectors:
        if not self._lock.acquire(timeout=_BUSY_SECONDS):
            raise EncoderBusy
        try:
            return self._vectors("queries", texts, _QUERY_SECONDS)
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._closing:
            self._is_closed = True
            process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._end()

    def _vectors(self, do: str, texts: Sequence[str], seconds: float) -> Vectors:
        if not texts:
            return np.zeros((0, self._dimensions or 1), np.float32)
        # Tokenizers reject lone surrogates, which JSON can contain.
        clean = [text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode() for text in texts]
        answer = self._ask({"do": do, "texts": clean}, seconds)
        with self._ending_on_failure():
            return self._validated(answer, len(texts))

    def _validated(self, answer: Message, rows: int) -> Vectors:
        """The vectors of an answer, after checking their number, length and values."""
        match answer.fields.get("shape"):
            case [int(found), int(dimensions)] if found == rows and 1 <= dimensions <= _MAX_DIMENSIONS:
                pass
            case _:
                raise EncoderFailed(f"it did not give one vector for each of {rows} texts", retry="limited")
        if len(answer.vectors) != 4 * rows * dimensions:
            raise EncoderFailed("its answer is cut off", retry="limited")
        if self._dimensions not in (0, dimensions):
            raise EncoderFailed(f"its vectors had {self._dimensions} numbers, now {dimensions}", retry="limited")
        vectors = np.frombuffer(answer.vectors, np.float32).reshape(rows, dimensions)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise EncoderFailed("its vectors are not finite numbers", retry="limited")
        self._dimensions = dimensions
        unit: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
        return unit

    def _ask(self, message: dict[str, object], seconds: float) -> Message:
        if self._process is None:
            raise EncoderFailed("it is not loaded", retry="limited")
        with self._ending_on_failure():
            return self._process.ask(message, seconds)

    @contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        """Ends the process after a failure, since its state is unknown."""
        try:
            yield
        except EncoderFailed:
            self._end()
            raise

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()
