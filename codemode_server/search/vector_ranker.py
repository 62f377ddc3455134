"""Loads one encoder, reloads it after failures, and keeps the vectors of all documents up to date.

Everything that blocks runs in one thread, `keep`. Searches use only what is ready, so they never wait for a model that
is slow, broken or unavailable. `diagnose` loads each encoder once, to tell which ranker works on this machine.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from codemode_server.config.settings import SearchSettings
from codemode_server.domain.errors import CodemodeError, EncoderFailed, EncoderMissing
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.semantic import SemanticEncoder
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vectors import Encoder, EncoderBusy, VectorIndex

if TYPE_CHECKING:
    from codemode_server.storage.cache import Cache

logger = logging.getLogger(__name__)

VectorRankerName = Literal["static", "semantic"]

_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each reload of the encoder, which is given up after the last."""
_RESET_SECONDS = 3_600.0
"""Time since the last failure after which earlier failures no longer count."""


class VectorRanker:
    """A ranker by vectors. `keep` runs in one thread; everything else is thread-safe."""

    def __init__(self, level: VectorRankerName, encoder: Encoder, *, pauses: Sequence[float] = _PAUSES) -> None:
        self.level = level
        self._encoder = encoder
        self._pauses = tuple(pauses)
        self._changed = threading.Condition()
        self._target: LexicalIndex | None = None
        self._vectors: VectorIndex | None = None
        self._made_by = ""
        """The name of the encoder that computed the vectors; queries of another one can't be compared with them."""
        self._is_loaded = False
        self._is_closed = False
        self._failures = 0
        self._failed_at = 0.0
        self._reported = ""
        self.is_given_up = False

    def set_target(self, index: LexicalIndex) -> None:
        """Sets the index to rank. Returns at once; if the index has no new documents, the ranker stays ready."""
        with self._changed:
            self._target = index
            self._reuse_vectors()
            self._changed.notify_all()

    def vectors(self, index: LexicalIndex) -> VectorIndex | None:
        """The vectors of an index, if they are complete and the encoder is loaded."""
        vectors = self._vectors
        return vectors if self._is_loaded and vectors is not None and vectors.index is index else None

    def failed(self, error: EncoderFailed) -> None:
        if self._is_loaded and not isinstance(error, EncoderBusy):
            self._record_failure(error)

    def keep(self) -> None:
        """Updates the vectors after every change, until the ranker is closed or given up. Blocking."""
        while (index := self._next()) is not None:
            try:
                self._update(index)
            except EncoderFailed as error:
                self._record_failure(error)
            except MemoryError:
                self._record_failure(EncoderFailed("there is not enough memory", may_retry=True))
            except Exception:
                # Searches continue with the other rankers.
                logger.exception("search: the ranker %s is broken", self.level)
                self._record_failure(EncoderFailed("it is broken; see the log"))
        self._encoder.close()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._encoder.close()

    def _next(self) -> LexicalIndex | None:
        """Waits for an index whose vectors are missing; None when the ranker is closed or given up."""
        with self._changed:
            while not self._is_closed and not self.is_given_up:
                target = self._target
                is_behind = target is not None and target.things and self.vectors(target) is None
                pause = self._failed_at + self._pauses[self._failures - 1] - time.monotonic() if self._failures else 0.0
                if is_behind and pause <= 0:
                    return target
                self._changed.wait(pause if is_behind else None)
        return None

    def _update(self, index: LexicalIndex) -> None:
        if not self._is_loaded:
            self._encoder.load()
        before = self._vectors if self._made_by == self._encoder.name else None
        if before is None:
            self._encoder.queries(["search"])  # a test with one word before thousands of texts
        vectors = VectorIndex(self._encoder, index, before)
        with self._changed:
            self._made_by, self._vectors, self._is_loaded, self._reported = self._encoder.name, vectors, True, ""
            self._reuse_vectors()

    def _reuse_vectors(self) -> None:
        """Makes the vectors of the target if every segment of it has some, so that the encoder is not called."""
        target, vectors = self._target, self._vectors
        if target is None or vectors is None or vectors.index is target:
            return
        if all(map(vectors.part, target.segments)):
            self._vectors = VectorIndex(self._encoder, target, vectors)

    def _record_failure(self, error: EncoderFailed) -> None:
        with self._changed:
            now = time.monotonic()
            self._failures = 1 if now - self._failed_at > _RESET_SECONDS else self._failures + 1
            self._failed_at = now
            self._is_loaded = False
            self.is_given_up = not error.may_retry or self._failures > len(self._pauses)
            if self.is_given_up:
                self._vectors = None
            is_new = self._reported != error.reason or self.is_given_up
            self._reported = error.reason
            is_closed = self._is_closed
            self._changed.notify_all()
        if is_new and not is_closed:
            then = "" if self.is_given_up else "; it is tried again"
            level = logging.INFO if isinstance(error, EncoderMissing) else logging.WARNING
            logger.log(level, "search: no %s ranking: %s%s", self.level, error, then)


def vector_rankers(settings: SearchSettings, cache: Cache | None = None) -> list[VectorRanker]:
    """The vector rankers that the settings ask for, from the weakest to the best."""
    return [VectorRanker(level, encoder) for level, encoder in _encoders(settings, SemanticEncoder(settings, cache))]


def _encoders(settings: SearchSettings, semantic: SemanticEncoder) -> list[tuple[VectorRankerName, Encoder]]:
    found: list[tuple[VectorRankerName, Encoder]] = []
    if settings.ranker != "lexical":
        found.append(("static", StaticEncoder()))
    if settings.ranker in ("auto", "semantic"):
        found.append(("semantic", semantic))
    return found


@dataclass(frozen=True, slots=True)
class SearchDiagnosis:
    level: Literal["lexical", "static", "semantic"]
    description: str
    is_met: bool
    problem: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        if not self.problem:
            return f"{self.level}, by {self.description}"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.level}, by {self.description}, since there is no better: {self.problem}{remedy}"


def diagnose(settings: SearchSettings) -> SearchDiagnosis:
    """Blocks for seconds with a large model. Downloads nothing."""
    problem = remedy = ""
    for level, encoder in reversed(_encoders(settings, SemanticEncoder(settings, may_download=False))):
        try:
            encoder.load()
            encoder.queries(["search"])
        except CodemodeError as error:
            if not problem:
                problem, remedy = (error.reason, error.remedy) if isinstance(error, EncoderFailed) else (str(error), "")
        else:
            is_met = settings.ranker in ("auto", level)
            return SearchDiagnosis(level, f"words and {encoder.description}", is_met, problem, remedy)
        finally:
            encoder.close()
    return SearchDiagnosis("lexical", "words", settings.ranker in ("auto", "lexical"), problem, remedy)
