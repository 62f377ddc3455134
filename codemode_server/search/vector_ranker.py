"""Loads one encoder, reloads it after failures, and keeps the vectors of all documents up to date.

Everything that blocks runs in one thread, `keep`. Searches use only what is ready, so they never wait for a model that
is slow, broken or unavailable.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codemode_server.domain.errors import CodemodeError, EncoderFailed, EncoderMissing
from codemode_server.search.documents import VECTOR_WEIGHTS
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.semantic import SemanticEncoder, VectorCache
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vectors import Encoder, EncoderBusy, VectorIndex
from codemode_server.settings import SearchSettings

logger = logging.getLogger(__name__)

VectorRankerName = Literal["static", "semantic"]

_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each reload of the encoder, which is given up after the last."""
_RESET_SECONDS = 1_800.0
"""Time without a failure after which earlier failures no longer count."""


@dataclass(frozen=True, slots=True)
class RankerState:
    """The progress of one vector ranker."""

    level: VectorRankerName
    description: str
    """The encoder, for people."""
    is_ready: bool
    """True if it has the vectors of the current index."""
    is_given_up: bool = False
    problem: str = ""
    """The current failure; empty if there is none."""
    remedy: str = ""
    done: int = 0
    total: int = 0
    """The number of tools whose vectors are being computed; `done` of them are finished."""

    @property
    def text(self) -> str:
        """For instance `embedding 1,200 of 3,000 tools`."""
        if self.problem:
            return f"{self.problem}{'' if self.is_given_up else '; it is tried again'}"
        if self.is_ready:
            return self.description
        return f"embedding {self.done:,} of {self.total:,} tools ({self.description})" if self.total else "loading"


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
        self._problem: EncoderFailed | None = None
        self._is_given_up = False
        self._counted = 0
        self._total = 0
        self._texts = 0
        """The number of texts of the tools counted in `_total`; each tool has several."""

    def set_target(self, index: LexicalIndex) -> None:
        """Sets the index to rank. Returns at once; if the index has no new documents, the ranker stays ready."""
        with self._changed:
            self._target = index
            if self._vectors is not None and _parts(index) <= _parts(self._vectors.index):
                # Every segment has vectors, so the encoder is not called.
                self._vectors = VectorIndex(self._encoder, index, self._vectors)
            self._changed.notify_all()

    def vectors(self, index: LexicalIndex) -> VectorIndex | None:
        """The vectors of an index, if they are complete and the encoder is loaded."""
        vectors = self._vectors
        return vectors if self._is_loaded and vectors is not None and vectors.index is index else None

    def failed(self, error: EncoderFailed) -> None:
        """Reports that a search could not be ranked by this ranker."""
        if self._is_loaded and not isinstance(error, EncoderBusy):
            self._record_failure(error)

    @property
    def state(self) -> RankerState:
        with self._changed:
            problem = self._problem
            return RankerState(
                self.level,
                self._encoder.description,
                self._is_up_to_date(),
                self._is_given_up,
                problem.reason if problem else "",
                problem.remedy if problem else "",
                self._done(),
                self._total,
            )

    def keep(self) -> None:
        """Updates the vectors after every change, until the ranker is closed or given up. Blocking."""
        while (index := self._next()) is not None:
            try:
                if not self._is_loaded:
                    self._encoder.load()
                self._update(index)
            except EncoderFailed as error:
                self._record_failure(error)
            except MemoryError:
                self._record_failure(EncoderFailed("there is not enough memory", may_retry=True))
            except CodemodeError as error:
                self._record_failure(EncoderFailed(str(error)))
            except Exception:
                # Searches continue with the other rankers.
                logger.exception("search: the ranker %s is broken", self.level)
                self._record_failure(EncoderFailed("it is broken; see the log"))
        self._encoder.close()

    def close(self) -> None:
        """Ends `keep` and closes the encoder."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._encoder.close()

    def _next(self) -> LexicalIndex | None:
        """Waits for an index whose vectors are missing; None when the ranker is closed or given up."""
        with self._changed:
            while not self._is_closed and not self._is_given_up:
                pause = self._failed_at + self._pause() - time.monotonic() if self._failures else 0.0
                is_behind = self._target is not None and self._target.things and not self._is_up_to_date()
                if is_behind and pause <= 0:
                    return self._target
                self._changed.wait(pause if is_behind else None)
        return None

    def _done(self) -> int:
        texts = max(0, self._encoder.encoded - self._counted)
        return min(self._total, texts * self._total // self._texts) if self._texts else 0

    def _is_up_to_date(self) -> bool:
        return self._is_loaded and self._vectors is not None and self._vectors.index is self._target

    def _update(self, index: LexicalIndex) -> None:
        before = self._vectors if self._made_by == self._encoder.name else None
        if before is None:
            # Test with one word before thousands of texts.
            self._encoder.queries(["search"])
        known = _parts(before.index) if before is not None else set()
        new = [len(segment.fields) for segment in index.segments if id(segment.postings) not in known]
        with self._changed:
            self._counted, self._total = self._encoder.encoded, sum(new)
            self._texts = sum(new) * len(VECTOR_WEIGHTS) + len(new)
        vectors = VectorIndex(self._encoder, index, before)
        with self._changed:
            self._made_by = self._encoder.name
            self._vectors = vectors
            if self._target is not None and self._target is not index and _parts(self._target) <= _parts(index):
                self._vectors = VectorIndex(self._encoder, self._target, vectors)
            self._is_loaded = True
            self._problem = None
            self._total = 0

    def _record_failure(self, error: EncoderFailed) -> None:
        """Records a failure; logs it if it is new or final."""
        with self._changed:
            now = time.monotonic()
            if now - self._failed_at > _RESET_SECONDS + self._pause():
                self._failures = 0
            self._failures += 1
            self._failed_at = now
            self._is_loaded = False
            self._is_given_up = not error.may_retry or self._failures > len(self._pauses)
            if self._is_given_up:
                self._vectors = None
            is_news = self._problem is None or self._problem.reason != error.reason or self._is_given_up
            self._problem = error
            self._total = 0
            is_closed = self._is_closed
            self._changed.notify_all()
        if is_news and not is_closed:
            then = "" if self._is_given_up else "; it is tried again"
            how = logging.INFO if isinstance(error, EncoderMissing) else logging.WARNING
            logger.log(how, "search: no %s ranking: %s%s", self.level, error, then)

    def _pause(self) -> float:
        return self._pauses[min(self._failures, len(self._pauses)) - 1] if self._failures and self._pauses else 0.0


def vector_rankers(settings: SearchSettings, cache: VectorCache | None = None) -> list[VectorRanker]:
    """The vector rankers that the settings ask for, from the weakest to the best."""
    if settings.ranker == "lexical":
        return []
    rankers = [VectorRanker("static", StaticEncoder())]
    if settings.ranker in ("auto", "semantic"):
        rankers.append(VectorRanker("semantic", SemanticEncoder(settings, cache)))
    return rankers


def _parts(index: LexicalIndex) -> set[int]:
    """Identities of the segments of an index: an unchanged segment keeps its postings."""
    return {id(segment.postings) for segment in index.segments}
