"""Our own queries, as models write them: how each ranking does on each kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.search.corpora import LATER, OWN, Missing, Query
from benchmarks.search.metrics import DEPTH, Figure, figure
from benchmarks.search.quality import Outcome, Quality, measure
from benchmarks.search.rankers import Level


@dataclass(frozen=True)
class Kind:
    """The queries of one kind."""

    name: str
    queries: int
    ndcg: dict[str, Figure]
    """Of each ranking."""
    top1: dict[str, float]
    met: dict[str, float]
    """Of the wants, the share that has one of its tools among the first ten; a query of one want has one."""


def by_kind(quality: Quality) -> Iterator[Kind]:
    """Kind by kind, and all at the end; then all of those that were written later."""
    for name in (OWN, LATER):
        kinds = list(_by_kind(quality, name))
        yield from kinds if name == OWN else [dataclasses.replace(kinds[-1], name="all, written later")]


def _by_kind(quality: Quality, name: str) -> Iterator[Kind]:
    outcomes = {ranking: quality.alone[ranking, name] for ranking in quality.rankings}
    queries = next(iter(outcomes.values())).queries
    kinds = dict.fromkeys(query.kind for query in queries)
    for kind in (*kinds, "all"):
        rows = [number for number, query in enumerate(queries) if kind in (query.kind, "all")]
        yield Kind(
            kind,
            len(rows),
            {name: figure(one.ndcg[rows]) for name, one in outcomes.items()},
            {name: float(one.top1[rows].mean()) for name, one in outcomes.items()},
            {name: _met(one, rows) for name, one in outcomes.items()},
        )


def measure_own(levels: Sequence[Level], *, with_peers: bool) -> Quality:
    """
    Raises:
        Missing: the tools are not here.
    """
    quality = measure([OWN, LATER], levels, with_peers=with_peers, with_wild=False, half=0)
    if not quality.sets:
        raise Missing(quality.left_out[0])
    return quality


def _met(outcome: Outcome, rows: Sequence[int]) -> float:
    shares = []
    for number in rows:
        found = set(outcome.ids[number][:DEPTH])
        shares.append(float(np.mean([bool(found & want) for want in _wants(outcome.queries[number])])))
    return float(np.mean(shares))


def _wants(query: Query) -> tuple[frozenset[str], ...]:
    return query.wants or (query.relevant,)
