"""The stored record of the usage statistics: a name and a number for each tool, no arguments or results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from codemode_server.storage.cache import Cache, Entry

HALF_LIFE_SECONDS = 21 * 86_400
MAX_USES = 40.0
"""Upper bound of a count, so that a burst of uses fades as fast as any other."""


class ToolName(NamedTuple):
    server: str
    tool: str


class Use(NamedTuple):
    uses: float
    at: float

    @classmethod
    def of(cls, entry: Entry) -> Use:
        value, at = entry
        return cls(float(value), at)

    @property
    def entry(self) -> Entry:
        return str(self.uses).encode(), self.at

    def as_of(self, now: float) -> float:
        """The number of uses, decayed to `now`; a later `at`, from a wrong clock, counts as `now`."""
        return min(self.uses, MAX_USES) * math.pow(0.5, max(0.0, now - self.at) / HALF_LIFE_SECONDS)

    def more(self, uses: float, now: float) -> Use:
        return Use(min(self.as_of(now) + uses, MAX_USES), now)


def load_uses(cache: Cache) -> dict[ToolName, Use]:
    """All stored counts, the least recently used first. Blocks."""
    return {ToolName(*key): Use.of(it) for key, it in cache.load().items()}
