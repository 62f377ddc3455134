"""Log messages of upstreams, as the protocol has them, and their levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least to the most severe."""
DEFAULT_LEVEL = "warning"
"""The least severe level that is wanted where nobody has set one."""


@dataclass(frozen=True, slots=True)
class LogMessage:
    """One message. All of it is the upstream's own, until `HostLog` has taken it."""

    level: str
    logger: str | None
    data: Any


class LogTaker(Protocol):
    """Takes the log messages of an upstream during one call."""

    @property
    def level(self) -> str | None:
        """The least severe level that is wanted; None: no messages are."""

    def take(self, message: LogMessage) -> None: ...


def is_at_least(level: str, least: str | None) -> bool:
    """Whether messages of a level are wanted where `least` is the least severe wanted one."""
    return least in LEVELS and level in LEVELS and LEVELS.index(level) >= LEVELS.index(least)
