"""Which ranking there is by now: words at once, meaning once an encoder and the vectors of all tools are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import Literal

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.catalog import Tool
from codemode_server.domain.errors import EncoderFailed
from codemode_server.domain.tools import Effect
from codemode_server.search.documents import Collection, Findable
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.ranking import Scored, rank
from codemode_server.search.vector_ranker import LevelState, VectorLevel

Level = Literal["lexical", "static", "semantic"]

Prior = Callable[[LexicalIndex], Scores | None]
"""How much each thing of an index is used, in any thread."""

_EFFECTS = tuple(Effect)
_PASSED_BY = {
    Effect.UNKNOWN: (Effect.UNKNOWN,),
    Effect.READS: (Effect.READS,),
    Effect.WRITES: (Effect.WRITES, Effect.DESTROYS, Effect.UNKNOWN),
    Effect.DESTROYS: (Effect.DESTROYS, Effect.UNKNOWN),
}
"""Effects of the tools that a filter passes: what destroys writes, and what states no effect may do either."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What fits a query, best first."""

    found: tuple[Scored, ...]
    level: Level
    """Which ranking it was."""


@dataclass(frozen=True, slots=True)
class Status:
    """Which level answers now, and how far the others are."""

    level: Level
    states: tuple[LevelState, ...]
    """States of the levels above the lexical one, the lowest first."""


class RankerStack:
    """Ranks by the best level that is there. Everything but `keep` is safe in any thread."""

    def __init__(self, above: Sequence[VectorLevel] = (), prior: Prior = lambda index: None) -> None:
        """The levels above words, from the lowest up; `keep` brings them up. `prior` is asked at each ranking."""
        self._above = tuple(above)
        self._prior = prior
        self._indexing = Lock()
        self._all = _All(LexicalIndex())

    def index(self, collections: Sequence[Collection]) -> None:
        """Take in what can be found now; costs only what changed. Blocking."""
        with self._indexing:
            index = LexicalIndex(collections, self._all.index)
            index.warm()
            self._all = _All(index)
            for level in self._above:
                level.want(index)

    def rank(self, query: str, limit: int, *, within: str | None = None, effect: Effect | None = None) -> Ranking:
        """The best first. `within` is the key of a collection, `effect` what the tools say of themselves.

        Blocking: above the words, an encoder's process is asked.
        """
        everything = self._all  # one snapshot, should another thread index meanwhile
        index, may_be = everything.index, everything.that_may_be(within, effect)
        prior = self._prior(index)
        there = [(level, made) for level in reversed(self._above) if (made := level.vectors(index)) is not None]
        for number, (level, vectors) in enumerate(there):
            beside = there[number + 1][1] if number + 1 < len(there) else None
            try:
                return Ranking(tuple(rank(index, vectors, query, may_be, limit, prior, beside)), level.level)
            except EncoderFailed as error:
                level.failed(error)
        return Ranking(tuple(rank(index, None, query, may_be, limit, prior)), "lexical")

    def things(self, *, within: str | None = None, effect: Effect | None = None) -> list[Findable]:
        """Everything that a search with these filters could find."""
        everything = self._all
        may_be, things = everything.that_may_be(within, effect), everything.index.things
        return list(things) if may_be is None else [things[number] for number in np.flatnonzero(may_be)]

    @property
    def size(self) -> int:
        """The number of things that can be found."""
        return len(self._all.index.things)

    def rarities(self, text: str) -> dict[str, float]:
        """How rare each stem of a text is, 0 to 1; 1 is in nothing that can be found."""
        return self._all.index.rarities(text)

    def meanings(self, word: str) -> frozenset[str]:
        """The stems that may stand for a word."""
        return self._all.index.meanings(word)

    def has(self, stem: str) -> bool:
        """Whether anything that can be found has this stem."""
        return self._all.index.has(stem)

    @property
    def status(self) -> Status:
        index = self._all.index
        ready: list[Level] = [level.level for level in self._above if level.vectors(index) is not None]
        return Status(ready[-1] if ready else "lexical", tuple(level.state for level in self._above))

    async def keep(self) -> None:
        """Bring the levels up and keep them so, each in a thread, until this is cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                for level in self._above:
                    own = anyio.CapacityLimiter(1)
                    tasks.start_soon(partial(anyio.to_thread.run_sync, level.keep, limiter=own))
                # The threads are waited for, so something else has to take the cancellation and end them.
                tasks.start_soon(self._close_at_end)
        finally:
            self.close()

    async def _close_at_end(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.close()

    def close(self) -> None:
        """End all encoders; what waits for them goes on at once."""
        for level in self._above:
            level.close()


class _All:
    """Everything that can be found now, by what a search can ask for."""

    def __init__(self, index: LexicalIndex) -> None:
        self.index = index

    def that_may_be(self, within: str | None, effect: Effect | None) -> NDArray[np.bool_] | None:
        """Whether each thing passes the filters; None if there are no filters."""
        if within is None and effect is None:
            return None
        may_be = np.ones(len(self.index.things), bool)
        if within is not None:
            asked = [segment.collection.key == within for segment in self.index.segments]
            may_be &= np.array(asked, bool)[self.index.segment_of]
        if effect is not None:
            may_be &= np.isin(self._effects, [_EFFECTS.index(one) for one in _PASSED_BY[effect]])
        return may_be

    @cached_property
    def _effects(self) -> NDArray[np.int8]:
        """The number of each thing's effect; -1 for skills."""
        numbers = {effect: number for number, effect in enumerate(_EFFECTS)}
        things = self.index.things
        found = (numbers[thing.effect] if isinstance(thing, Tool) else -1 for thing in things)
        return np.fromiter(found, np.int8, len(things))
