"""Measures how well and how fast `search_tools` finds the tool; a run of all sets and rankers writes SEARCH.md.

python -m benchmarks.search --quality-only
python -m benchmarks.search --sets azure,livemcp_step --rankers lexical,static
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.search.corpora import LATER, OWN, PUBLIC, Corpus, Missing, catalog_of, corpus, own_queries
from benchmarks.search.rankers import RANKERS, Indexed, Ranker, Unavailable, ndcg, top1
from codemode_server.catalog.catalog import Catalog
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack

REPORT = Path(__file__).parents[1] / "SEARCH.md"
MIN_MEAN = 0.765
"""nDCG@10 of the static ranker, a mean over the five public sets."""
LATENCY_SET = "toolbench"
MAX_QUERY_MS = 10.0
_HEAD = """\
# Search

nDCG@10 (share of queries whose first result is right) of each ranker. The five public sets count equally in the mean;
`own` and `later` are queries as models write them, over 1,469 tools of 35 servers. Written by `make bench-search`.
"""


@dataclass(frozen=True, slots=True)
class Quality:
    """The figures of one ranker on one set."""

    ndcg: float
    top1: float

    def __str__(self) -> str:
        return f"{self.ndcg:.3f} ({self.top1:.3f})"


def main() -> int:
    asked = _arguments()
    corpora: list[Corpus] = []
    rankers: list[Ranker] = []
    left_out: list[str] = []
    for name in (*asked.sets, OWN, LATER):
        try:
            corpora.append(corpus(name))
        except Missing as reason:
            left_out.append(str(reason))
    for name in asked.rankers:
        try:
            rankers.append(Ranker(name))
        except Unavailable as reason:
            left_out.append(f"{name}: {reason}")
    found = {(ranker.name, one.name): _quality(ranker, one) for one in corpora for ranker in rankers}
    means = {
        ranker.name: float(np.mean([found[ranker.name, one.name].ndcg for one in corpora if one.name in PUBLIC]))
        for ranker in rankers
    }
    sections = [_HEAD, _quality_table(corpora, rankers, found, means), _answers(corpora)]
    is_met = not set(PUBLIC) <= set(asked.sets) or means.get("static", 1.0) >= MIN_MEAN
    if not asked.quality_only:
        text, is_fast = _latency(rankers)
        sections.append(text)
        is_met &= is_fast
    for ranker in rankers:
        ranker.close()
    text = "\n".join([*sections, *(f"- not measured: {reason}" for reason in left_out)])
    print(text)
    if not asked.quality_only and not left_out and set(asked.sets) == set(PUBLIC) and len(rankers) == len(RANKERS):
        REPORT.write_text(f"{text}\n")
    return 0 if is_met else 1


def _quality(ranker: Ranker, asked: Corpus) -> Quality:
    started = time.perf_counter()
    results = ranker.ranked(asked)
    print(f"{ranker.name} on {asked.name}: {time.perf_counter() - started:.1f} s", file=sys.stderr)
    pairs = [(ids, query.relevant) for ids, query in zip(results, asked.queries, strict=True) if query.relevant]
    return Quality(float(np.mean([ndcg(*pair) for pair in pairs])), float(np.mean([top1(*pair) for pair in pairs])))


def _quality_table(
    corpora: Sequence[Corpus],
    rankers: Sequence[Ranker],
    found: dict[tuple[str, str], Quality],
    means: dict[str, float],
) -> str:
    heads = ["ranker", *(one.name for one in corpora), "mean of the public sets"]
    rows = [
        [ranker.name, *(str(found[ranker.name, one.name]) for one in corpora), f"{means[ranker.name]:.3f}"]
        for ranker in rankers
    ]
    return f"## Quality\n\n{_table(heads, rows)}\n\nBudget: {MIN_MEAN} for the mean of `static`.\n"


def _answers(corpora: Sequence[Corpus]) -> str:
    """What the answers say, by the lexical ranker."""
    rows = []
    for one in corpora:
        catalog = catalog_of(one.entries)
        rankers = RankerStack()
        rankers.index(collections(catalog))
        rows.append([one.name, *_said(catalog, rankers, [query.text for query in one.queries])])
        if one.name == OWN:
            texts = [query.text for query in own_queries("nothing.jsonl")]
            rows.append(["queries without a right tool", *_said(catalog, rankers, texts)])
    heads = ["queries", "results of an answer", "characters", "told that nothing fits"]
    return f"## Answers\n\n{_table(heads, rows)}\n"


def _said(catalog: Catalog, rankers: RankerStack, texts: Sequence[str]) -> list[str]:
    answers = [search_tools(catalog, rankers, text) for text in texts]
    is_nothing = [not answer.results or "; nearest: " in answer.doubt for answer in answers]
    return [
        f"{np.mean([len(answer.results) for answer in answers]):.1f}",
        f"{np.mean([len(answer.text) for answer in answers]):.0f}",
        f"{np.mean(is_nothing):.1%}",
    ]


def _latency(rankers: Sequence[Ranker]) -> tuple[str, bool]:
    """The time of a query over the largest public set; for each query the best of three."""
    asked, rows, is_met = corpus(LATENCY_SET), [], True
    for ranker in rankers:
        started = time.perf_counter()
        index = ranker.indexed(catalog_of(asked.entries))
        built = time.perf_counter() - started
        times = [
            min(_seconds(ranker, index, query.text) for _ in range(3)) * 1e3
            for query in asked.queries[:: 1 + len(asked.queries) // 200]
        ]
        median, high = statistics.median(times), statistics.quantiles(times, n=20)[18]
        is_met &= ranker.name == "semantic" or median <= MAX_QUERY_MS
        rows.append([ranker.name, f"{len(asked.entries):,}", f"{built:.1f} s", f"{median:.1f} ms", f"{high:.1f} ms"])
    heads = ["ranker", "tools", "index built", "query p50", "query p95"]
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    return (
        f"## Latency\n\n{_table(heads, rows)}\n\nBudget: {MAX_QUERY_MS:g} ms at p50 without a model. On {machine}.\n"
    ), is_met


def _seconds(ranker: Ranker, index: Indexed, query: str) -> float:
    started = time.perf_counter()
    ranker.best(index, query)
    return time.perf_counter() - started


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option, known in (("sets", PUBLIC), ("rankers", RANKERS)):
        parser.add_argument(
            f"--{option}", type=lambda text: text.split(","), default=list(known), help="of " + ", ".join(known)
        )
    parser.add_argument("--quality-only", action="store_true", help="no times, for a machine with other work")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
