"""What usage is worth on each set: several histories of each kind, by the level that answers by default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.search.corpora import Corpus
from benchmarks.search.metrics import Figure, figure
from benchmarks.search.replay import HISTORIES, Replayed, Replays
from codemode_server.search.vectors import Encoder
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tool_tables import SqliteUsageStore

SEEDS = range(10)


@dataclass(frozen=True, slots=True)
class UsageGain:
    """What one kind of history is worth on one set."""

    corpus: str
    kind: str
    without: float
    gain: Figure
    """nDCG@10 with it less that without, over the histories."""
    unused: int
    lost: int
    """Right tools that no history called, among the first ten without it; and those of them that it pushed out."""


def usage_figures(corpora: Sequence[Corpus], encoder: Encoder | None) -> Iterator[UsageGain]:
    for corpus in corpora:
        replays = Replays(corpus, encoder)
        for kind in HISTORIES:
            with TemporaryDirectory() as folder:
                folders = [Path(folder) / str(seed) for seed in SEEDS]
                stores = [SqliteUsageStore(Database(one), DatabaseThread(one)) for one in folders]
                replayed = [replays.replayed(kind, seed, store) for seed, store in zip(SEEDS, stores, strict=True)]
            yield _gain_of(corpus.name, kind, replayed)


def _gain_of(corpus: str, kind: str, replayed: Sequence[Replayed]) -> UsageGain:
    return UsageGain(
        corpus,
        kind,
        float(np.mean([one.without for one in replayed])),
        figure(np.array([one.with_usage - one.without for one in replayed])),
        sum(one.unused for one in replayed),
        sum(one.lost for one in replayed),
    )
