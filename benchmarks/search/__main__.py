"""Runs what is asked for and prints it; the whole run writes SEARCH.md, and exits 1 if a budget is missed.

python -m benchmarks.search --sets azure,livemcp_step --levels lexical,static --no-wild --no-timing
python -m benchmarks.search --quality-only

The second measures everything but the times, for a machine with other work. It writes SEARCH.md with the times, and the
budgets of times, of the file that is there, and names the run that they are of.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.search.answers import answers
from benchmarks.search.budgets import Budget, quality_budgets, timing_budgets, usage_budgets
from benchmarks.search.corpora import OWN, PUBLIC, Corpus, Missing, corpus
from benchmarks.search.own import measure_own
from benchmarks.search.pairs import pair_figures
from benchmarks.search.peers import PEERS
from benchmarks.search.quality import measure
from benchmarks.search.rankers import LEVELS, Level, Unavailable
from benchmarks.search.report import (
    answer_section,
    budget_section,
    head,
    kept_times,
    left_out_section,
    own_sections,
    pair_section,
    quality_sections,
    timing_section,
    usage_section,
)
from benchmarks.search.timing import SIZES, Timing, TimingFailed, peer_timing, timing_of
from benchmarks.search.usage_figures import usage_figures
from scripts.npm import Unavailable as NotInstalled

REPORT = Path(__file__).parents[1] / "SEARCH.md"
PARTS = ("wild", "peers", "own", "pairs", "answers", "usage", "timing")
PAIR_SETS = (OWN, "azure", "livemcp_step")
"""Of the others the tools are on one server each, or share one."""


@dataclass
class Run:
    """What one run found so far."""

    asked: argparse.Namespace
    levels: list[Level] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def default(self) -> Level | None:
        """The level that answers where nothing was set up."""
        by_name = {level.name: level for level in self.levels}
        return by_name.get("static") or by_name.get("lexical")

    @property
    def is_whole(self) -> bool:
        """Whether it is of everything, so that the report is of it."""
        asked = self.asked
        skipped = any(getattr(asked, f"no_{part}") for part in PARTS if part != "timing" or not asked.quality_only)
        return not skipped and not asked.half and set(asked.sets) == set(PUBLIC) and set(asked.levels) == set(LEVELS)

    def corpora(self, names: Sequence[str]) -> Iterator[Corpus]:
        for name in names:
            try:
                yield corpus(name)
            except Missing as reason:
                self.left_out.append(str(reason))


def main() -> int:
    run = Run(_arguments())
    for name in run.asked.levels:
        try:
            run.levels.append(Level(name))
        except Unavailable as reason:
            run.left_out.append(f"{name}: {reason}")
    try:
        _quality(run)
        for part, measured in (
            ("own", _own),
            ("pairs", _pairs),
            ("answers", _answers),
            ("usage", _usage),
            ("timing", _timing),
        ):
            if not getattr(run.asked, f"no_{part}"):
                measured(run)
    finally:
        for level in run.levels:
            level.close()
    times = kept_times(REPORT.read_text()) if run.asked.quality_only and REPORT.exists() else None
    budgets = budget_section(run.budgets, times.budgets if times else ())
    sections = [*run.sections, *([times.section] if times else [])]
    text = "\n\n".join([head(), budgets, *sections, *left_out_section(run.left_out)])
    print(text)
    if run.is_whole:
        REPORT.write_text(f"{text}\n")
    return 1 if any(one.is_kept is False for one in run.budgets) else 0


def _quality(run: Run) -> None:
    asked = run.asked
    quality = measure(
        asked.sets, run.levels, with_peers=not asked.no_peers, with_wild=not asked.no_wild, half=asked.half
    )
    run.left_out += quality.left_out
    run.sections += quality_sections(quality)
    run.budgets += quality_budgets(quality, run.default.name if run.default else None)


def _own(run: Run) -> None:
    try:
        run.sections += own_sections(measure_own(run.levels, with_peers=not run.asked.no_peers))
    except Missing as reason:
        run.left_out.append(str(reason))


def _pairs(run: Run) -> None:
    corpora = list(run.corpora(PAIR_SETS))
    run.sections.append(pair_section([pair_figures(one, level) for one in corpora for level in run.levels]))


def _answers(run: Run) -> None:
    if run.default:
        corpora = list(run.corpora([OWN, *run.asked.sets]))
        run.sections.append(answer_section(list(answers(corpora, run.default.name)), run.default.name))


def _usage(run: Run) -> None:
    if run.default:
        corpora = [one for one in run.corpora([OWN, *run.asked.sets]) if one.name in (OWN, "azure", "livemcp_step")]
        found = list(usage_figures(corpora, run.default.encoder))
        run.sections.append(usage_section(found, run.default.name))
        run.budgets += usage_budgets(found)


def _timing(run: Run) -> None:
    """At each size, ours and the others."""
    timings: list[Timing] = []
    for size in SIZES:
        for name in (*(level.name for level in run.levels), *(() if run.asked.no_peers else PEERS)):
            print(f"timing {name} at {size:,} tools", file=sys.stderr)
            try:
                timings.append(peer_timing(name, size) if name in PEERS else timing_of(name, size))
            except (Missing, TimingFailed, NotInstalled) as reason:
                run.left_out.append(str(reason))
    run.sections.append(timing_section(timings))
    run.budgets += timing_budgets(timings, run.default.name if run.default else None)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=_names(PUBLIC), default=list(PUBLIC), help="of " + ", ".join(PUBLIC))
    parser.add_argument("--levels", type=_names(LEVELS), default=list(LEVELS), help="of " + ", ".join(LEVELS))
    parser.add_argument("--half", type=int, choices=(0, 1, 2), default=0, help="every second query only: to choose by")
    for part in PARTS:
        parser.add_argument(f"--no-{part}", action="store_true")
    parser.add_argument(
        "--quality-only", action="store_true", help="leave the times of the existing SEARCH.md in place"
    )
    asked = parser.parse_args()
    asked.no_timing |= asked.quality_only
    return asked


def _names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if wrong := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(wrong))} is none of {', '.join(known)}")
        return names

    return split


if __name__ == "__main__":
    sys.exit(main())
