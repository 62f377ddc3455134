"""One level of the search that ranks by meaning: its encoder, kept alive, and the vectors of all that can be found.

All that blocks is in one thread, `keep`: loading the encoder, loading it again when it failed, and the vectors of the
newest index. Searches only take what is there. So a model that is slow, broken or gone costs nobody a wait.
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
from codemode_server.search.encoding.client import EncoderBusy, LoadableEncoder
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.vectors import VectorIndex

logger = logging.getLogger(__name__)

VectorLevelName = Literal["static", "semantic"]

_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Before the encoder is loaded again, seconds. After the last one, one that merely ended is given up."""
_WELL_SECONDS = 1_800.0
"""After which earlier failures no longer count."""


@dataclass(frozen=True, slots=True)
class LevelState:
    """How far a level is."""

    level: VectorLevelName
    told: str
    """What its encoder is."""
    is_ready: bool
    """Whether it ranks all that can be found now."""
    is_given_up: bool = False
    problem: str = ""
    """What went wrong last, if that is not over."""
    remedy: str = ""
    done: int = 0
    total: int = 0
    """Tools whose vectors are being computed, and how many of them are done."""

    @property
    def text(self) -> str:
        """For instance `embedding 1,200 of 3,000 tools`."""
        if self.problem:
            return f"{self.problem}{'' if self.is_given_up else '; it is tried again'}"
        if self.is_ready:
            return self.told
        return f"embedding {self.done:,} of {self.total:,} tools ({self.told})" if self.total else "loading"


class VectorLevel:
    """A level. `keep` is for one thread, everything else for any."""

    def __init__(self, level: VectorLevelName, encoder: LoadableEncoder, *, pauses: Sequence[float] = _PAUSES) -> None:
        self.level = level
        self._encoder = encoder
        self._pauses = tuple(pauses)
        self._news = threading.Condition()
        self._wanted: LexicalIndex | None = None
        self._vectors: VectorIndex | None = None
        self._made_by = ""
        """The encoder's name when the vectors were made: another one can't compare with them."""
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

    def want(self, index: LexicalIndex) -> None:
        """What can be found now. Costs nothing here; without anything new the level stays ready."""
        with self._news:
            self._wanted = index
            if self._vectors is not None and _parts(index) <= _parts(self._vectors.index):
                # All is known, so the encoder is not asked.
                self._vectors = VectorIndex(self._encoder, index, self._vectors)
            self._news.notify_all()

    def vectors(self, index: LexicalIndex) -> VectorIndex | None:
        """The vectors of everything in an index, if they are ready and queries can be compared with them."""
        vectors = self._vectors
        return vectors if self._is_loaded and vectors is not None and vectors.index is index else None

    def failed(self, error: EncoderFailed) -> None:
        """A search could not be ranked by this level."""
        if self._is_loaded and not isinstance(error, EncoderBusy):
            self._fail(error)

    @property
    def state(self) -> LevelState:
        with self._news:
            problem = self._problem
            return LevelState(
                self.level,
                self._encoder.told,
                self._is_up_to_date(),
                self._is_given_up,
                problem.reason if problem else "",
                problem.remedy if problem else "",
                self._done(),
                self._total,
            )

    def keep(self) -> None:
        """Bring the level up to date whenever something changed, until it is closed or given up. Blocking."""
        while (index := self._next()) is not None:
            try:
                if not self._is_loaded:
                    self._encoder.load()
                self._bring_up(index)
            except EncoderFailed as error:
                self._fail(error)
            except MemoryError:
                self._fail(EncoderFailed("there is not enough memory", again="few"))
            except CodemodeError as error:
                self._fail(EncoderFailed(str(error)))
            except Exception:
                # Search goes on without it, and so must all else.
                logger.exception("search: the level %s is broken", self.level)
                self._fail(EncoderFailed("it is broken; the log tells more"))
        self._encoder.close()

    def close(self) -> None:
        """End `keep`, and whatever it waits for."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        self._encoder.close()

    def _next(self) -> LexicalIndex | None:
        """The index that is to be brought up, once it is time; none when this is closed or given up."""
        with self._news:
            while not self._is_closed and not self._is_given_up:
                pause = self._failed_at + self._pause() - time.monotonic() if self._failures else 0.0
                is_behind = self._wanted is not None and self._wanted.things and not self._is_up_to_date()
                if is_behind and pause <= 0:
                    return self._wanted
                self._news.wait(pause if is_behind else None)
        return None

    def _done(self) -> int:
        texts = max(0, self._encoder.encoded - self._counted)
        return min(self._total, texts * self._total // self._texts) if self._texts else 0

    def _is_up_to_date(self) -> bool:
        return self._is_loaded and self._vectors is not None and self._vectors.index is self._wanted

    def _bring_up(self, index: LexicalIndex) -> None:
        before = self._vectors if self._made_by == self._encoder.name else None
        if before is None:
            # A word to see whether it works at all, before it is given thousands.
            self._encoder.queries(["search"])
        known = _parts(before.index) if before is not None else set()
        new = [len(segment.fields) for segment in index.segments if id(segment.postings) not in known]
        with self._news:
            self._counted, self._total = self._encoder.encoded, sum(new)
            self._texts = sum(new) * len(VECTOR_WEIGHTS) + len(new)
        vectors = VectorIndex(self._encoder, index, before)
        with self._news:
            self._made_by = self._encoder.name
            self._vectors = vectors
            if self._wanted is not None and self._wanted is not index and _parts(self._wanted) <= _parts(index):
                self._vectors = VectorIndex(self._encoder, self._wanted, vectors)
            self._is_loaded = True
            self._problem = None
            self._total = 0

    def _fail(self, error: EncoderFailed) -> None:
        """Told in the log when it is another failure than before, or the last one."""
        with self._news:
            now = time.monotonic()
            if now - self._failed_at > _WELL_SECONDS + self._pause():
                self._failures = 0
            self._failures += 1
            self._failed_at = now
            self._is_loaded = False
            self._is_given_up = error.again == "never" or (error.again == "few" and self._failures > len(self._pauses))
            if self._is_given_up:
                self._vectors = None
            is_news = self._problem is None or self._problem.reason != error.reason or self._is_given_up
            self._problem = error
            self._total = 0
            is_closed = self._is_closed
            self._news.notify_all()
        if is_news and not is_closed:
            then = "" if self._is_given_up else "; it is tried again"
            how = logging.INFO if isinstance(error, EncoderMissing) else logging.WARNING
            logger.log(how, "search: no %s ranking: %s%s", self.level, error, then)

    def _pause(self) -> float:
        return self._pauses[min(self._failures, len(self._pauses)) - 1] if self._failures and self._pauses else 0.0


def _parts(index: LexicalIndex) -> set[int]:
    """What the vectors of an index are made of: a segment that did not change keeps its postings."""
    return {id(segment.postings) for segment in index.segments}
