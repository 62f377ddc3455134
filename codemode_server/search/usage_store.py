"""How much a tool is used, as it is stored between runs: a name and a number, nothing of what was asked or given."""

from __future__ import annotations

import math
from typing import NamedTuple

HALF_LIFE_SECONDS = 21 * 86_400
MAX_USES = 40.0
"""A count grows no further, so that what was used without end for a while is forgotten as soon as anything else."""


class ToolName(NamedTuple):
    """A tool as programs import it."""

    server: str
    tool: str


class Use(NamedTuple):
    """How much a tool was used, as of a time."""

    uses: float
    at: float
    """Seconds since 1970."""

    def as_of(self, now: float) -> float:
        """What is left of it; a time to come, of a clock that was wrong, is now."""
        return min(self.uses, MAX_USES) * math.pow(0.5, max(0.0, now - self.at) / HALF_LIFE_SECONDS)

    def more(self, uses: float, now: float) -> Use:
        return Use(min(self.as_of(now) + uses, MAX_USES), now)
