"""Runs what is asked for and prints it; the whole run writes SEARCH.md, and exits 1 if a budget is missed.

python -m benchmarks.search --sets azure,livemcp_step --levels lexical,static --no-wild --no-timing
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.search.budgets import quality_budgets, timing_budgets
from benchmarks.search.corpora import PUBLIC, Missing
from benchmarks.search.own import measure_own
from benchmarks.search.peers import PEERS
from benchmarks.search.quality import measure
from benchmarks.search.rankers import LEVELS, Level, Unavailable
from benchmarks.search.report import budget_section, own_sections, quality_sections, timing_section
from benchmarks.search.timing import SIZES, Timing, TimingFailed, peer_timing, timing_of
from scripts.npm import Unavailable as NotInstalled

REPORT = Path(__file__).parents[1] / "SEARCH.md"


def main() -> int:
    asked = _arguments()
    levels, left_out = [], []
    for name in asked.levels:
        try:
            levels.append(Level(name))
        except Unavailable as reason:
            left_out.append(f"{name}: {reason}")
    quality = measure(asked.sets, levels, with_peers=not asked.no_peers, with_wild=not asked.no_wild, half=asked.half)
    left_out += quality.left_out
    default = next((one for one in ("static", "lexical") if one in {level.name for level in levels}), None)
    budgets = list(quality_budgets(quality, default))
    parts = list(quality_sections(quality))
    if not asked.no_own:
        try:
            parts += own_sections(measure_own(levels, with_peers=not asked.no_peers))
        except Missing as reason:
            left_out.append(str(reason))
    if not asked.no_timing:
        timings = measure_times([level.name for level in levels], left_out, with_peers=not asked.no_peers)
        parts.append(timing_section(timings))
        budgets += timing_budgets(timings, default)
    parts.append(budget_section(budgets))
    if left_out:
        parts.append("Left out: " + "; ".join(left_out))
    print("\n\n".join(parts))
    for level in levels:
        level.close()
    return 1 if any(one.is_kept is False for one in budgets) else 0


def measure_times(levels: Sequence[str], left_out: list[str], *, with_peers: bool) -> list[Timing]:
    """At each size, ours and the others; what could not be timed goes to `left_out`."""
    timings = []
    for size in SIZES:
        for name in (*levels, *(PEERS if with_peers else ())):
            print(f"timing {name} at {size:,} tools", file=sys.stderr)
            try:
                timings.append(peer_timing(name, size) if name in PEERS else timing_of(name, size))
            except (Missing, TimingFailed, NotInstalled) as reason:
                left_out.append(str(reason))
    return timings


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--sets", type=_names(PUBLIC), default=list(PUBLIC), help="of " + ", ".join(PUBLIC))
    parser.add_argument("--levels", type=_names(LEVELS), default=list(LEVELS), help="of " + ", ".join(LEVELS))
    parser.add_argument("--half", type=int, choices=(0, 1, 2), default=0, help="every second query only: to choose by")
    for part in ("wild", "timing", "peers", "own", "habits"):
        parser.add_argument(f"--no-{part}", action="store_true")
    return parser.parse_args()


def _names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if wrong := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(wrong))} is none of {', '.join(known)}")
        return names

    return split


if __name__ == "__main__":
    sys.exit(main())
