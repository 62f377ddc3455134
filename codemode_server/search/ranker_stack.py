"""Ranks with the best ranker that is ready: lexical at once, vectors once an encoder has processed all tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from threading import Lock
from typing import Literal, NamedTuple

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.catalog import Tool
from codemode_server.domain.errors import EncoderFailed
from codemode_server.domain.skills import Skill
from codemode_server.domain.tools import Effect
from codemode_server.search.documents import Collection, Findable
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.ranking import Scored, rank
from codemode_server.search.vector_ranker import VectorRanker

RankerName = Literal["lexical", "static", "semantic"]

UsageBoost = Callable[[LexicalIndex, Set[str]], Scores | None]
"""Returns how much each thing of an index is used, 0 to 2, given the servers that a session has called; callable in any
thread."""

_LET_THROUGH_BY = {
    Effect.UNKNOWN: (Effect.UNKNOWN,),
    Effect.READS: (Effect.READS,),
    Effect.WRITES: (Effect.WRITES, Effect.DESTROYS, Effect.UNKNOWN),
    Effect.DESTROYS: (Effect.DESTROYS, Effect.UNKNOWN),
}
"""Effects that each filter lets through: destroying is writing, and a tool that states no effect may do either."""


class Ranking(NamedTuple):
    found: list[Scored]
    level: RankerName


class RankerStack:
    """Ranks with the best ranker that is ready. Everything but `keep` is thread-safe."""

    def __init__(
        self, vector_rankers: Sequence[VectorRanker] = (), usage_boost: UsageBoost = lambda index, servers: None
    ) -> None:
        self._vector_rankers = tuple(vector_rankers)
        self._usage_boost = usage_boost
        self._indexing = Lock()
        self._index = LexicalIndex()

    def index(self, collections: Sequence[Collection]) -> None:
        """Replaces what can be found; the cost depends only on what changed. Blocking."""
        with self._indexing:
            self._index = index = LexicalIndex(collections, self._index)
            for ranker in self._vector_rankers:
                ranker.set_target(index)

    def rank(
        self,
        query: str,
        limit: int,
        within: str | None = None,
        effect: Effect | None = None,
        skills: Set[Skill] | None = None,
        called: Set[str] = frozenset(),
    ) -> Ranking:
        """The best results first, of one collection, of tools with this effect, and of these skills; `called` are the
        servers that the session has called. Blocking."""
        index = self._index  # the same one throughout, should another thread index meanwhile
        allowed = _mask(index, within, effect, skills)
        usage_boost = self._usage_boost(index, called)
        ready = [(one, made) for one in reversed(self._vector_rankers) if (made := one.vectors(index)) is not None]
        for number, (ranker, vectors) in enumerate(ready):
            second = ready[number + 1][1] if number + 1 < len(ready) else None
            try:
                return Ranking(rank(index, vectors, query, allowed, limit, usage_boost, second), ranker.level)
            except EncoderFailed as error:
                ranker.failed(error)
        return Ranking(rank(index, None, query, allowed, limit, usage_boost), "lexical")

    def things(
        self, within: str | None = None, effect: Effect | None = None, skills: Set[Skill] | None = None
    ) -> list[Findable]:
        index = self._index
        allowed = _mask(index, within, effect, skills)
        return list(index.things) if allowed is None else [index.things[at] for at in np.flatnonzero(allowed)]

    @property
    def size(self) -> int:
        return len(self._index.things)

    def rarities(self, text: str) -> dict[str, float]:
        return self._index.rarities(text)

    async def keep(self) -> None:
        """Runs each vector ranker in a thread until this is cancelled."""
        async with anyio.create_task_group() as tasks:
            for ranker in self._vector_rankers:
                own = anyio.CapacityLimiter(1)
                tasks.start_soon(partial(anyio.to_thread.run_sync, ranker.keep, limiter=own))
            try:
                await anyio.sleep_forever()
            finally:
                self.close()  # cancelling does not end threads, but closing the encoders does

    def close(self) -> None:
        """Closes all encoders; a search that waits for one continues at once."""
        for ranker in self._vector_rankers:
            ranker.close()


def _mask(
    index: LexicalIndex, within: str | None, effect: Effect | None, skills: Set[Skill] | None
) -> NDArray[np.bool_] | None:
    """A mask of the things that pass the filters; None if all do."""
    hidden: list[int] = []
    if skills is not None and index.segments:  # the skills are the last collection
        last = index.segments[-1].collection.things
        first = len(index.things) - len(last)
        hidden = [at for at, it in enumerate(last, first) if isinstance(it, Skill) and it not in skills]
    if within is None and effect is None and not hidden:
        return None
    allowed = np.ones(len(index.things), bool)
    if within is not None:
        asked = [segment.collection.key == within for segment in index.segments]
        allowed &= np.array(asked, bool)[index.segment_of]
    if effect is not None:
        let_through = _LET_THROUGH_BY[effect]
        allowed &= [isinstance(thing, Tool) and thing.effect in let_through for thing in index.things]
    allowed[hidden] = False
    return allowed
