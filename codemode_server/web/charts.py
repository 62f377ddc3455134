"""Places what the charts of savings draw. Pure.

A page draws them as SVG without script or style; the same numbers stand beside each chart in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from codemode_server.domain.savings import Savings, ServerRow, TokenUsage, UsageRow

WIDTH, HEIGHT = 1_000, 100
_GAP = 0.2
"""The part of a day's place that stays empty."""
_MIN_SIZE = 1.0
"""Size of the smallest value that is not zero, so that it is visible."""


@dataclass(frozen=True, slots=True)
class Column:
    """A day: what direct calls would have cost beside what was spent. Places are parts of `WIDTH` and `HEIGHT`."""

    day: str
    usage: TokenUsage
    left: float
    width: float
    """The width of each of both."""
    direct: float
    spent: float
    """Heights."""


@dataclass(frozen=True, slots=True)
class Columns:
    """All days of a period, also those in which nothing ran."""

    columns: tuple[Column, ...]
    highest: int
    """Tokens at the full height."""


def columns(found: Savings, now: float) -> Columns:
    """The chart by day."""
    usages = {it.name: it.usage for it in found.days}
    days = _days(found.since, now)
    highest = max((max(it.direct(), it.spent()) for it in usages.values()), default=0)
    place = WIDTH / len(days)
    width = round(place * (1 - _GAP) / 2, 2)
    drawn = []
    for number, day in enumerate(days):
        usage = usages.get(day, TokenUsage())
        left = round(place * (number + _GAP / 2), 2)
        sizes = (_size(usage.direct(), highest, HEIGHT), _size(usage.spent(), highest, HEIGHT))
        drawn.append(Column(day, usage, left, width, *sizes))
    return Columns(tuple(drawn), highest)


def lengths(rows: Sequence[UsageRow]) -> list[tuple[UsageRow, float, float]]:
    """Rows with the lengths of their bars, parts of `WIDTH`: of direct calls, and of what was spent."""
    longest = max((max(it.usage.direct(), it.usage.spent()) for it in rows), default=0)
    return [(it, _size(it.usage.direct(), longest, WIDTH), _size(it.usage.spent(), longest, WIDTH)) for it in rows]


def server_lengths(servers: Sequence[ServerRow], mask: Callable[[str], str]) -> list[tuple[str, int, int, int, float]]:
    """Name, calls, tokens of arguments and of results, and the length of the bar of each server."""
    rows = [(mask(it.name), it.tokens.calls, it.tokens.arguments, it.tokens.results) for it in servers]
    longest = max((arguments + results for _, _, arguments, results in rows), default=0)
    return [(*it, _size(it[2] + it[3], longest, WIDTH)) for it in rows]


def _size(tokens: int, most: int, full: int) -> float:
    return round(max(tokens / most * full, _MIN_SIZE), 2) if tokens > 0 else 0.0


def _days(since: float, now: float) -> list[str]:
    """The days of this machine's clock, in order."""
    first, last = datetime.fromtimestamp(since).astimezone().date(), datetime.fromtimestamp(now).astimezone().date()
    return [f"{first + timedelta(days=number):%Y-%m-%d}" for number in range((last - first).days + 1)]
