"""This end of the encoder's process: an encoder that can be loaded, fail, be loaded again, and be closed for good."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np

from codemode_server.domain.errors import EncoderFailed
from codemode_server.search.encoding.frames import Message
from codemode_server.search.encoding.process import WorkerProcess
from codemode_server.search.encoding.resolve_model import Way
from codemode_server.search.vectors import Encoder, Vectors

_LOAD_SECONDS = 180.0
_DOWNLOAD_SECONDS = 3_600.0
_DOCUMENTS_SECONDS = 300.0
_QUERY_SECONDS = 8.0
_BUSY_SECONDS = 2.0
"""How long a query waits for another one, or for a batch of documents."""
_MAX_CHARACTERS = 16_000
"""Limit per text."""
_MAX_DIMENSIONS = 65_536


class EncoderBusy(EncoderFailed):
    """Raised for a query that would have to wait for too long; nothing is wrong."""

    code = "encoder_busy"

    def __init__(self) -> None:
        super().__init__("it is busy", again="whenever")


class LoadableEncoder(Encoder, Protocol):
    """An encoder that is nothing before it is loaded, and can be loaded again after it failed."""

    @property
    def told(self) -> str:
        """What it is, for people."""

    @property
    def encoded(self) -> int:
        """How many texts of documents it has brought into vectors, for who watches its progress."""

    def load(self) -> None:
        """Blocking.

        Raises:
            EncoderFailed: it can't be had.
        """

    def close(self) -> None:
        """For good; in any thread. Whoever waits for it gets an `EncoderFailed` at once."""


class ProcessEncoder:
    """Implements `LoadableEncoder` by a process, which is started when it is loaded."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._process: WorkerProcess | None = None
        self._turn = threading.Lock()
        self._closing = threading.Lock()
        self._is_closed = False
        self._name = ""
        self._dimensions = 0
        self.encoded = 0

    @property
    def told(self) -> str:
        return self._way.told

    @property
    def name(self) -> str:
        return self._name

    @property
    def pid(self) -> int | None:
        """Process id of the encoder."""
        return self._process.pid if self._process else None

    def load(self) -> None:
        with self._turn:
            self._end()
            process = WorkerProcess(with_network=self._way.needs_network)
            with self._closing:
                self._process = process
                is_closed = self._is_closed
            if is_closed:
                self._end()
                raise EncoderFailed("it is closed")
            seconds = _DOWNLOAD_SECONDS if self._way.may_download else _LOAD_SECONDS
            name = self._asked({"do": "load", "way": self._way.load}, seconds).fields.get("name")
            self._dimensions = 0
            self._name = f"{self._way.name} {str(name)[:64]}"

    def documents(self, texts: Sequence[str]) -> Vectors:
        with self._turn:
            vectors = self._vectors("documents", texts, _DOCUMENTS_SECONDS)
        self.encoded += len(texts)
        return vectors

    def queries(self, texts: Sequence[str]) -> Vectors:
        if not self._turn.acquire(timeout=_BUSY_SECONDS):
            raise EncoderBusy
        try:
            return self._vectors("queries", texts, _QUERY_SECONDS)
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._closing:
            self._is_closed = True
            process = self._process
        if process is not None:
            process.kill()
        with self._turn:
            self._end()

    def _vectors(self, do: str, texts: Sequence[str], seconds: float) -> Vectors:
        if not texts:
            return np.zeros((0, self._dimensions or 1), np.float32)
        # Half of a surrogate pair, which JSON can hold, is no text to a tokenizer.
        clean = [text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode() for text in texts]
        answer = self._asked({"do": do, "texts": clean}, seconds)
        with self._ending_on_failure():
            return self._checked(answer, len(texts))

    def _checked(self, answer: Message, rows: int) -> Vectors:
        """The vectors of an answer: as many as asked for, as long as the others, numbers."""
        match answer.fields.get("shape"):
            case [int(found), int(dimensions)] if found == rows and 1 <= dimensions <= _MAX_DIMENSIONS:
                pass
            case _:
                raise EncoderFailed(f"it did not give one vector for each of {rows} texts", again="few")
        if len(answer.vectors) != 4 * rows * dimensions:
            raise EncoderFailed("its answer is cut off", again="few")
        if self._dimensions not in (0, dimensions):
            raise EncoderFailed(f"its vectors had {self._dimensions} numbers, now {dimensions}", again="few")
        vectors = np.frombuffer(answer.vectors, np.float32).reshape(rows, dimensions)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise EncoderFailed("its vectors are no numbers", again="few")
        self._dimensions = dimensions
        unit: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
        return unit

    def _asked(self, message: dict[str, object], seconds: float) -> Message:
        if self._process is None:
            raise EncoderFailed("it is not loaded", again="few")
        with self._ending_on_failure():
            return self._process.ask(message, seconds)

    @contextmanager
    def _ending_on_failure(self) -> Iterator[None]:
        """A process that failed is not asked again: who knows in what state it is."""
        try:
            yield
        except EncoderFailed:
            self._end()
            raise

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()
