"""The figures as markdown."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.search.answers import Answers
from benchmarks.search.budgets import Budget
from benchmarks.search.metrics import SAMPLES, figure
from benchmarks.search.own import Kind, by_kind
from benchmarks.search.pairs import PairFigures
from benchmarks.search.peers import PEERS
from benchmarks.search.quality import Quality
from benchmarks.search.timing import SIZES, Timing
from benchmarks.search.usage_figures import SEEDS, UsageGain
from codemode_server import __version__

_HEAD = """\
# How `search_tools` finds the tool

`make bench-search` of codemode-server {version} on {date}: {machine}.

- *lexical*, *static*, *semantic*: our levels, by the product's own code; *static* is what answers where nothing was set
  up, *semantic* is with all-MiniLM-L6-v2 (int8, onnxruntime). *fastmcp*: the BM25 of FastMCP's search transform, over
  tools named as it mounts them. *bm25s*: with Snowball stems, over server, name, description and parameters. Both from
  their published packages, in the same run.
- Public sets: azure (Azure MCP's prompts), livemcp_task and livemcp_step (LiveMCPBench), toolbench (StableToolBench),
  sealtools (Seal-Tools). nDCG@10 counts each right tool the same. In brackets 95 % intervals: bootstrap over queries,
  the same {samples:,} draws for all rankings.
- *mixed in*: 7,675 tools of 658 real servers that none of the queries is about; one that does the very same as a right
  one counts as wrong.
- Our own queries (`search/queries.jsonl`) were written by hand over {own_tools} before any ranking of
  them was seen; so were those for which there is no tool (`search/nothing.jsonl`). They were looked at while the search
  was made, so there are more that were written when it was nearly done and that no earlier choice knew
  (`search/later.jsonl`). The static table was trained on the texts of most of these tools, but on no query.
- How it was chosen: kinds of verbs and synonyms are general knowledge. The weights of the ranking were
  set by hand, looking at the mean of all five sets; around where they are they are flat (within 0.002 of the mean),
  but the sets are not unseen. The static table was chosen on toolbench and half of sealtools, between two at the end
  on all five; what is cut as weak on every third query; the weight of usage on toolbench; the
  weight of words in the parts of a short query on the pairs below. Two weights were set last, by trying a few values
  each: words beside a model (0.35) and servers without vectors (0.25). Both have the best mean over the five sets; on
  our own queries the first is best as well, while 0.15 would be better for the second. The figures of `later` stood
  beside the others in these trials, and all our own queries were looked at for the rule that names missing words; so
  only what was chosen before is unseen by `later`.
- Times: of a query the best of three, of a process by itself; what passed, or what the processor worked if that is
  less. *semantic* is with vectors from the cache for tools (random ones at {largest:,}), and the model for queries."""


_USAGE = """\
A history is replayed, then other queries are asked: two weeks of 200 programs of a team that has thirty everyday tools,
some far more everyday than others (Zipf); every fifth program is about anything, every tenth call is of a wrong tool.
*everyday*: the history is the team's own. *even*: every query of one half once. *misleading*: the history of a team
with other everyday tools."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def quality_sections(quality: Quality) -> Iterable[str]:
    sets = quality.sets
    if not sets:
        return
    for title, measure in (("nDCG@10", "ndcg"), ("First result right", "top1")):
        yield f"## {title}\n\n" + table(
            ["ranking", *sets, "mean"],
            (
                [
                    named(quality, ranking),
                    *(str(figure(getattr(quality.alone[ranking, one], measure))) for one in sets),
                    str(quality.mean(ranking, measure)),
                ]
                for ranking in quality.rankings
            ),
        )
    levels = [one for one in quality.rankings if one not in PEERS]
    pairs = [(level, other) for level in levels for other in quality.rankings if other != level]
    pairs = [(one, other) for one, other in pairs if other in PEERS or levels.index(other) < levels.index(one)]
    if pairs:
        yield "## Differences in nDCG@10, on the same queries\n\n" + table(
            ["", *sets, "mean"],
            (
                [
                    f"{one} over {other}",
                    *(quality.difference(one, other, [name]).signed for name in sets),
                    quality.difference(one, other, sets).signed,
                ]
                for one, other in pairs
            ),
        )
    if quality.mixed:
        yield "## nDCG@10 lost with other tools mixed in\n\n" + table(
            ["ranking", *sets],
            (
                [named(quality, ranking), *(quality.loss(ranking, one).signed for one in sets)]
                for ranking in quality.rankings
                if quality.has(ranking, mixed=True)
            ),
        )


def own_sections(quality: Quality) -> Iterable[str]:
    kinds = list(by_kind(quality))
    titles: dict[str, Callable[[Kind, str], str]] = {
        "nDCG@10": lambda kind, ranking: str(kind.ndcg[ranking]),
        "first result right": lambda kind, ranking: f"{kind.top1[ranking]:.2f}",
        "share of the wants with a right tool among the first ten": lambda kind, ranking: f"{kind.met[ranking]:.2f}",
    }
    for title, shown in titles.items():
        yield f"## Queries as models write them: {title}\n\n" + table(
            ["kind", "queries", *(named(quality, ranking) for ranking in quality.rankings)],
            ([kind.name, str(kind.queries), *(shown(kind, ranking) for ranking in quality.rankings)] for kind in kinds),
        )


def pair_section(found: Sequence[PairFigures]) -> str:
    """Beside what an older ranking gave for the same pairs."""
    before = json.loads(_PAIRS_BEFORE.read_text())
    rows = []
    for one in found:
        pairs, *shares = before["figures"].get(f"{one.name} {one.ranking}", [0])
        old = [f"{share:.0%}" for share in shares] if pairs == one.pairs else ["", ""]
        new = [f"{share:.0%}" for share in (one.both_at_3, one.both_at_10, one.interleaved_at_3)]
        rows.append([one.name, str(one.pairs), one.ranking, old[0], new[0], old[1], *new[1:]])
    return (
        "## Short queries for two things\n\n"
        "Queries such as `commit history and diffs`, made by rule from the definitions of reading tools "
        "(`search/pairs.py`): the share with both tools among the first results. *before*: the same pairs, ranked by "
        f"commit {before['commit']} on {before['date']} (`search/pairs_before.json`). *in turn*: each part asked "
        "alone, and the two answers taken in turn.\n\n"
    ) + table(
        [
            "tools of",
            "pairs",
            "ranking",
            "first 3 before",
            "first 3",
            "first 10 before",
            "first 10",
            "in turn, first 3",
        ],
        rows,
    )


_PAIRS_BEFORE = Path(__file__).with_name("pairs_before.json")


@dataclass(frozen=True, slots=True)
class KeptTimes:
    """What a run without times takes over of the report that is there."""

    section: str
    budgets: tuple[str, ...]
    """Rows of the table."""


def kept_times(report: str) -> KeptTimes | None:
    """The times of a report, with a sentence that says of which run they are; none if it has none."""
    found = re.search(rf"^{_TIMES}\n\n(.*?)(?=\n+## |\n*\Z)", report, re.MULTILINE | re.DOTALL)
    if found is None:
        return None
    run = re.search(r"^`make bench-search` of (.+)$", report, re.MULTILINE)
    note = "" if _NOT_OF_THIS_RUN in found[1] else f"{_NOT_OF_THIS_RUN} {run[1] if run else 'unknown'}\n\n"
    budgets = [row for row in report.splitlines() if re.match(r"\| (?:median of|index (?:of|after)) ", row)]
    return KeptTimes(f"{_TIMES}\n\n{note}{found[1]}", tuple(budgets))


_TIMES = "## Times and memory"
_NOT_OF_THIS_RUN = "Not measured in this run (`--quality-only`), but in that of"


def timing_section(timings: Sequence[Timing]) -> str:
    whole = {(one.ranking, one.tools): one for one in timings}

    def over(one: Timing) -> str:
        peer = whole.get(("fastmcp", one.tools))
        return f"{one.short[0] / peer.short[0]:.2f} / {one.long[0] / peer.long[0]:.2f}" if peer else ""

    return f"{_TIMES}\n\n" + table(
        [
            "ranking",
            "tools",
            "index built",
            "one of 50 servers anew",
            "memory of the index",
            "agents' queries p50 / p95",
            "long requests p50 / p95",
            "p50 over fastmcp's, agents' / long",
        ],
        (
            [
                one.ranking,
                f"{one.tools:,}",
                f"{one.built_s:.2f} s",
                "" if one.renewed_s is None else f"{one.renewed_s / one.built_s:.0%} of it",
                f"{one.grown_mib:.0f} MiB",
                f"{one.short[0]:.2f} / {one.short[1]:.2f} ms",
                f"{one.long[0]:.2f} / {one.long[1]:.2f} ms",
                over(one),
            ]
            for one in timings
        ),
    )


def answer_section(found: Sequence[Answers], level: str) -> str:
    return (
        f"## What `search_tools` says, by {level}\n\n"
        "*named*: of the right tools among the first ten of the ranking, those that the answer still names after weak "
        "results are cut and near-duplicates folded. *nothing fits*: queries that are told so, which is right in the "
        "line *no tool for it* alone. *words missing*: queries that are told which of their words no result "
        "mentions; also true where the first result is right.\n\n"
    ) + table(
        ["queries of", "queries", "results", "tokens (o200k)", "named", "nothing fits", "words missing"],
        (
            [
                one.name,
                str(one.queries),
                f"{one.shown:.1f}",
                f"{one.tokens:.0f}",
                "" if one.kept is None else f"{one.kept:.1%}",
                f"{one.nothing_said:.1%}",
                f"{one.words_said:.1%}",
            ]
            for one in found
        ),
    )


def usage_section(found: Sequence[UsageGain], level: str) -> str:
    return (
        f"## Usage, by {level}\n\n"
        f"{_USAGE}\n\n{len(SEEDS)} histories each, with the interval over them. *pushed out*: right tools that the "
        "history never called and that are no longer among the first ten, of all such tools.\n\n"
    ) + table(
        ["set", "history", "nDCG@10 without", "gained by usage", "pushed out"],
        ([one.corpus, one.kind, f"{one.without:.3f}", one.gain.signed, f"{one.lost} of {one.unused}"] for one in found),
    )


def left_out_section(reasons: Sequence[str]) -> list[str]:
    lines = "\n".join(f"- {reason}" for reason in dict.fromkeys(reasons))
    return [f"## Left out\n\n{lines}"] if lines else []


def head() -> str:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release().split('-')[0]}"
    return _HEAD.format(
        version=__version__,
        samples=SAMPLES,
        own_tools="1,469 tools of 35 servers",
        largest=SIZES[-1],
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=f"{machine}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}",
    )


def named(quality: Quality, ranking: str) -> str:
    version = quality.versions.get(ranking)
    return f"{ranking} ({version})" if version else ranking


def budget_section(budgets: Sequence[Budget], kept: Sequence[str] = ()) -> str:
    """`kept` are rows of an earlier run."""
    marks = {True: "kept", False: "**MISSED**", None: "not measured"}
    return (
        "## Budgets\n\n"
        + table(
            ["what", "measured", "budget", ""],
            ([one.what, one.measured, one.budget, marks[one.is_kept]] for one in budgets),
        )
        + "".join(f"\n{row}" for row in kept)
    )
