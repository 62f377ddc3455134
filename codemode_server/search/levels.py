"""Which ranking there is by now: words at once, meaning once an encoder and the vectors of all tools are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from codemode_server.catalog.catalog import Tool
from codemode_server.model import Effect
from codemode_server.search.documents import Collection
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import Scored, rank
from codemode_server.search.vectors import VectorIndex

Level = Literal["lexical", "static", "semantic"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What fits a query, best first."""

    found: tuple[Scored, ...]
    level: Level
    """Which ranking it was."""


class Levels:
    """Ranks by the best level that is there."""

    def __init__(self) -> None:
        self._index = LexicalIndex()
        self._vectors: VectorIndex | None = None

    def index(self, collections: Sequence[Collection]) -> None:
        """Take in what can be found now; costs only what changed. Blocking, and safe in any thread."""
        self._index = LexicalIndex(collections, self._index)

    def rank(self, query: str, limit: int, *, within: str | None = None, effect: Effect | None = None) -> Ranking:
        """The best first. `within` is the key of a collection, `effect` what the tools say of themselves."""
        index = self._index  # one snapshot, should another thread index meanwhile
        may_be = None
        if within is not None or effect is not None:
            may_be = np.array(
                [
                    within in (None, index.segments[number].collection.key)
                    and (effect is None or (isinstance(thing, Tool) and thing.effect is effect))
                    for number, thing in zip(index.segment_of, index.things, strict=True)
                ],
                bool,
            )
        return Ranking(tuple(rank(index, None, query, may_be, limit)), "lexical")
