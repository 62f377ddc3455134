"""Where it is kept between runs how much tools are used: the contract.

A name and a number for each tool, nothing of what was asked or given. No method raises: what can't be kept is lived
without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

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


class UsageStore(Protocol):
    """Called on the event loop, so all must be quick."""

    def load(self) -> dict[ToolName, Use]:
        """All that is kept."""

    def update(self, changes: Mapping[ToolName, Callable[[Use | None], Use]]) -> bool:
        """Replace what is kept by what each function makes of it (None for nothing), all in one transaction, so that
        another product on the same database loses nothing. False if that was not possible."""

    def forget(self) -> None:
        """Keep nothing of what is kept."""
