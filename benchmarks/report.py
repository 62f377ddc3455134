"""What all reports share: rows with a budget, tables in Markdown, times, tokens, and the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from codemode_server import __version__


@dataclass(frozen=True)
class Row:
    what: str
    measured: str
    budget: str = ""
    is_met: bool | None = None
    """None where there is no budget."""

    @property
    def verdict(self) -> str:
        return {True: "kept", False: "**missed**", None: ""}[self.is_met]


def rows_table(rows: Sequence[Row]) -> str:
    return table(
        ["what", "measured", "budget", ""], [[row.what, row.measured, row.budget, row.verdict] for row in rows]
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, ["---"] * len(heads), *rows))


def measured_by(command: str) -> str:
    """Which command measured what, when and where."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release().split('-')[0]}"
    return (
        f"`{command}` of codemode-server {__version__} on {datetime.now(UTC):%Y-%m-%d}: {machine}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}."
    )


async def milliseconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1e3


def milliseconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def percentiles(times_ms: Sequence[float]) -> str:
    return f"p50 {statistics.median(times_ms):.2f} ms, p95 {statistics.quantiles(times_ms, n=20)[18]:.2f} ms"
