"""The figures as markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from benchmarks.search.budgets import Budget
from benchmarks.search.metrics import figure
from benchmarks.search.own import Kind, by_kind
from benchmarks.search.peers import PEERS
from benchmarks.search.quality import Quality
from benchmarks.search.timing import Timing


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


def named(quality: Quality, ranking: str) -> str:
    version = quality.versions.get(ranking)
    return f"{ranking} ({version})" if version else ranking


def budget_section(budgets: Sequence[Budget]) -> str:
    marks = {True: "kept", False: "**MISSED**", None: "not measured"}
    return "## Budgets\n\n" + table(
        ["what", "measured", "budget", ""],
        ([one.what, one.measured, one.budget, marks[one.is_kept]] for one in budgets),
    )
