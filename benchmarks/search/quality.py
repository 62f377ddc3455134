"""Every ranking on every set, alone and with other tools mixed in: a figure for each query."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.search.corpora import Corpus, Missing, Query, corpus, distractors
from benchmarks.search.metrics import DEPTH, Figure, Values, figure, mean_figure, ndcg, top1
from benchmarks.search.peers import PEERS, peer_rankings
from benchmarks.search.rankers import Level, Rankings
from scripts.npm import Unavailable


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one ranking did on the queries of one set."""

    queries: tuple[Query, ...]
    ids: Rankings
    ndcg: Values
    top1: Values

    @classmethod
    def of(cls, queries: Sequence[Query], ids: Rankings) -> Outcome:
        pairs = list(zip(ids, queries, strict=True))
        return cls(
            tuple(queries),
            ids,
            np.array([ndcg(found, query.relevant) for found, query in pairs]),
            np.array([top1(found, query.relevant) for found, query in pairs]),
        )


@dataclass
class Quality:
    """All outcomes of a run."""

    alone: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    """Of (ranking, set)."""
    mixed: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    """The same with tools of other servers beside."""
    rankings: list[str] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    """Ranking → what made it."""
    left_out: list[str] = field(default_factory=list)
    """What could not be measured, and why."""

    def has(self, ranking: str, sets: Iterable[str] = (), *, mixed: bool = False) -> bool:
        outcomes = self.mixed if mixed else self.alone
        return all((ranking, one) in outcomes for one in (sets or self.sets))

    def mean(self, ranking: str, measure: str = "ndcg") -> Figure:
        """Over the sets, each counting the same."""
        return mean_figure(getattr(self.alone[ranking, one], measure) for one in self.sets)

    def difference(self, ranking: str, other: str, sets: Sequence[str]) -> Figure:
        """nDCG of one less that of the other, on the same draws of queries."""
        return mean_figure(self.alone[ranking, one].ndcg - self.alone[other, one].ndcg for one in sets)

    def loss(self, ranking: str, name: str) -> Figure:
        """nDCG that the tools mixed in cost."""
        return figure(self.alone[ranking, name].ndcg - self.mixed[ranking, name].ndcg)


def measure(sets: Sequence[str], levels: Sequence[Level], *, with_peers: bool, with_wild: bool, half: int) -> Quality:
    """Run all. `half` is 0 for all queries, 1 or 2 for every second of them."""
    found = Quality(rankings=[level.name for level in levels])
    loaded: list[Corpus] = []
    for name in sets:
        try:
            whole = corpus(name)
        except Missing as reason:
            found.left_out.append(str(reason))
            continue
        found.sets.append(name)
        loaded.append(whole.asking(whole.queries[half - 1 :: 2]) if half else whole)
    rounds: list[tuple[dict[tuple[str, str], Outcome], list[Corpus]]] = [(found.alone, loaded)]
    if with_wild:
        try:
            others = distractors()
            rounds.append((found.mixed, [one.with_distractors(others) for one in loaded]))
        except Missing as reason:
            found.left_out.append(str(reason))
    for outcomes, corpora in rounds:
        for one in corpora:
            for level in levels:
                started = time.perf_counter()
                outcomes[level.name, one.name] = Outcome.of(one.queries, level.ranked(one).ids)
                _tell(level.name, one, started)
    if with_peers:
        _measure_peers(found, rounds)
    return found


def _measure_peers(found: Quality, rounds: list[tuple[dict[tuple[str, str], Outcome], list[Corpus]]]) -> None:
    for peer in PEERS:
        try:
            for outcomes, corpora in rounds:
                for one in corpora:
                    started = time.perf_counter()
                    ids, version = peer_rankings(peer, one, DEPTH)
                    outcomes[peer, one.name] = Outcome.of(one.queries, ids)
                    found.versions[peer] = version
                    _tell(peer, one, started)
            found.rankings.append(peer)
        except Unavailable as reason:
            found.left_out.append(f"{peer}: {reason}")


def _tell(ranking: str, one: Corpus, started: float) -> None:
    seconds = time.perf_counter() - started
    print(f"{ranking} on {one.name}, {len(one.entries):,} tools: {seconds:.1f} s", file=sys.stderr)
