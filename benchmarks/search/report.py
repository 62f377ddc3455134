"""The figures as markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from benchmarks.search.answers import Answers
from benchmarks.search.budgets import Budget
from benchmarks.search.habit_figures import SEEDS, Habit
from benchmarks.search.metrics import SAMPLES, figure
from benchmarks.search.own import Kind, by_kind
from benchmarks.search.peers import PEERS
from benchmarks.search.quality import Quality
from benchmarks.search.timing import SIZES, Timing
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
  was made, so there are more that were written when it was nearly done and that nothing was chosen by
  (`search/later.jsonl`). The static table was trained on the texts of most of these tools, but on no query.
- How it was chosen: kinds of verbs, synonyms and dictionaries are general knowledge. The weights of the ranking were
  set by hand, looking at the mean of all five sets; around where they are they are flat (within 0.002 of the mean),
  but the sets are not unseen. The static table was chosen on toolbench and half of sealtools, between two at the end
  on all five; what is cut as weak on every third query; the weight of habits on toolbench. Nothing was chosen by
  `later`.
- Times: of a query the best of three, of a process by itself; what passed, or what the processor worked if that is
  less. *semantic* is with vectors from the cache for tools (random ones at {largest:,}), and the model for queries."""


_HABITS = """\
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


def timing_section(timings: Sequence[Timing]) -> str:
    whole = {(one.ranking, one.tools): one for one in timings}

    def over(one: Timing) -> str:
        peer = whole.get(("fastmcp", one.tools))
        return f"{one.short[0] / peer.short[0]:.2f} / {one.long[0] / peer.long[0]:.2f}" if peer else ""

    return "## Times and memory\n\n" + table(
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
        "line *no tool for it* alone.\n\n"
    ) + table(
        ["queries of", "queries", "results", "tokens (o200k)", "named", "nothing fits"],
        (
            [
                one.name,
                str(one.queries),
                f"{one.shown:.1f}",
                f"{one.tokens:.0f}",
                "" if one.kept is None else f"{one.kept:.1%}",
                f"{one.nothing_said:.1%}",
            ]
            for one in found
        ),
    )


def habit_section(found: Sequence[Habit], level: str) -> str:
    return (
        f"## Habits, by {level}\n\n"
        f"{_HABITS}\n\n{len(SEEDS)} histories each, with the interval over them. *pushed out*: right tools that the "
        "history never called and that are no longer among the first ten, of all such tools.\n\n"
    ) + table(
        ["set", "history", "nDCG@10 without", "gained by habits", "pushed out"],
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


def budget_section(budgets: Sequence[Budget]) -> str:
    marks = {True: "kept", False: "**MISSED**", None: "not measured"}
    return "## Budgets\n\n" + table(
        ["what", "measured", "budget", ""],
        ([one.what, one.measured, one.budget, marks[one.is_kept]] for one in budgets),
    )
