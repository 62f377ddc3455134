"""The index of everything that can be found, and its ranking for one query."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from codemode_server.catalog.catalog import Tool
from codemode_server.domain.skills import Skill
from codemode_server.domain.tools import Effect
from codemode_server.search.documents import Collection, Findable
from codemode_server.search.lexical import LexicalIndex, Scores
from codemode_server.search.ranking import Scored, rank
from codemode_server.search.static import StaticTable
from codemode_server.search.vectors import VectorIndex

UsageBoost = Callable[[LexicalIndex], Scores | None]
"""Returns how much each thing of an index is used, 0 to 1; callable in any thread."""

_LET_THROUGH_BY = {
    Effect.UNKNOWN: (Effect.UNKNOWN,),
    Effect.READS: (Effect.READS,),
    Effect.WRITES: (Effect.WRITES, Effect.DESTROYS, Effect.UNKNOWN),
    Effect.DESTROYS: (Effect.DESTROYS, Effect.UNKNOWN),
}
"""Effects that each filter lets through: destroying is writing, and a tool that states no effect may do either."""


class Ranker:
    """Ranks by words and by meaning. Thread-safe."""

    def __init__(self, usage_boost: UsageBoost = lambda index: None) -> None:
        self._usage_boost = usage_boost
        self._indexing = Lock()
        self._table: StaticTable | None = None
        self._indexed: tuple[LexicalIndex, VectorIndex] | None = None

    def index(self, collections: Sequence[Collection]) -> None:
        """Replaces what can be found; the cost depends only on what changed. Blocking. Raises `CodemodeError`: the
        static table can't be read."""
        with self._indexing:
            self._table = self._table or StaticTable()
            before, vectors = self._indexed or (None, None)
            index = LexicalIndex(collections, before)
            self._indexed = index, VectorIndex(self._table, index, vectors)

    def rank(
        self,
        query: str,
        limit: int,
        within: str | None = None,
        effect: Effect | None = None,
        skills: Set[Skill] | None = None,
    ) -> list[Scored]:
        """The best results first, of one collection, of tools with this effect, and of these skills. Blocking."""
        if (indexed := self._indexed) is None:  # the same throughout, should another thread index meanwhile
            return []
        index, vectors = indexed
        return rank(index, vectors, query, _mask(index, within, effect, skills), limit, self._usage_boost(index))

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

    @property
    def _index(self) -> LexicalIndex:
        return LexicalIndex() if self._indexed is None else self._indexed[0]


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
