"""How long it takes and how much memory: of each ranking at three sizes, each in a process of its own.

`python -m benchmarks.search.timing LEVEL SIZE` measures one of ours and prints it as JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from benchmarks.search.corpora import (
    Entry,
    Missing,
    catalog_of,
    corpus,
    distractors,
    own_queries,
    toolsets,
)
from benchmarks.search.encoders import Cached, Unavailable, encoder_of
from benchmarks.search.metrics import DEPTH
from benchmarks.search.peers import peer_times
from codemode_server.catalog.catalog import Catalog
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank
from codemode_server.search.vectors import Encoder, VectorIndex, Vectors

SIZES = (500, 3_000, 50_000)
SERVERS = 50
"""At the middle size, of which one changes."""
MAX_EMBEDDED = 3_000
"""Tools that get vectors by a model; more get random ones, which are as fast to compare."""
_ROUNDS = 3
_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Timing:
    """One ranking at one size; times of queries in milliseconds, of each query the best of three."""

    ranking: str
    tools: int
    built_s: float
    grown_mib: float
    """Resident memory after the index was built, above that before; the tools themselves not counted."""
    short: tuple[float, float]
    """Median and 95th percentile of what agents ask."""
    long: tuple[float, float]
    """The same for requests of people with several wants."""
    renewed_s: float | None = None
    """The index anew after one of its servers changed, if that was measured."""

    @property
    def slower(self) -> float:
        """The greater one of both medians."""
        return max(self.short[0], self.long[0])


def timing_of(level: str, size: int) -> Timing:
    """Measured in a fresh process.

    Raises:
        TimingFailed: it did not work.
    """
    command = [sys.executable, "-m", "benchmarks.search.timing", level, str(size)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise TimingFailed(f"{level} at {size:,} tools: {done.stderr.strip()[-300:]}")
    told = json.loads(done.stdout)
    return Timing(**{**told, "short": tuple(told["short"]), "long": tuple(told["long"])})


def peer_timing(peer: str, size: int) -> Timing:
    """Of another search; in its own environment, over the same tools and queries.

    Raises:
        Unavailable: it can't be had.
    """
    step, rounds = (8, 1) if size > SIZES[1] else (2, _ROUNDS)  # one of them takes a second for a long query there
    short, long = short_queries()[::step], long_queries()[::step]
    told = peer_times(peer, entries_of(size), [*short, *long], DEPTH, rounds)
    times = told["times_ms"]
    return Timing(
        peer,
        size,
        told["built_s"],
        told["grown_mib"],
        percentiles(times[: len(short)]),
        percentiles(times[len(short) :]),
    )


class TimingFailed(Exception):
    """Raised when a level could not be timed; the message says why."""


def entries_of(size: int) -> list[Entry]:
    """Tools of real servers; beyond what there is, the same again under other names."""
    known = [*toolsets()]
    with contextlib.suppress(Missing):
        known += distractors()
    return list(islice(_repeated(known), size))


def _repeated(entries: Sequence[Entry]) -> Iterator[Entry]:
    yield from entries
    for number in count(2):
        word = _word(number)
        for one in entries:
            yield dataclasses.replace(
                one, id=f"{one.id} {number}", server=f"{one.server} {word}", name=f"{one.name}_{word}"
            )


def _word(number: int) -> str:
    """A made-up word for each number."""
    syllables = ("ba", "ko", "mi", "ru", "ste", "lan", "vo", "dre")
    return "".join(syllables[int(digit, 8)] for digit in f"{number + 64:o}")


def in_servers(entries: Sequence[Entry], servers: int) -> list[Entry]:
    """The same tools spread evenly over so many servers."""
    return [
        dataclasses.replace(one, server=f"server {number * servers // len(entries)}", name=f"{one.name}_{number}")
        for number, one in enumerate(entries)
    ]


def short_queries() -> list[str]:
    """As agents ask."""
    return [query.text for query in own_queries("queries.jsonl") if query.kind != "long"]


def long_queries() -> list[str]:
    """As people ask, with several wants: the longest of a public set where it is here, else our own long ones."""
    try:
        return sorted((query.text for query in corpus("toolbench").queries), key=len)[-120::2]
    except Missing:
        return [query.text for query in own_queries("queries.jsonl") if query.kind == "long"]


class Watch:
    """Time since it was made: what passed, or what the processor worked if that is less, as on a busy machine.

    Not where another process works for this one (`is_alone` is False).
    """

    def __init__(self, is_alone: bool = True) -> None:
        self._is_alone = is_alone
        self._started = time.perf_counter()
        self._worked = time.process_time()

    @property
    def seconds(self) -> float:
        worked = time.process_time() - self._worked
        passed = time.perf_counter() - self._started
        return min(passed, worked) if self._is_alone else passed


def percentiles(milliseconds: Sequence[float]) -> tuple[float, float]:
    return statistics.median(milliseconds), statistics.quantiles(milliseconds, n=20)[18]


class _Unread:
    """An encoder for what is too much for a model here: random vectors for tools, its own for queries."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.name = f"random beside {encoder.name}"
        self._width = encoder.queries(["width"]).shape[1]
        self._random = np.random.default_rng(1)

    def documents(self, texts: Sequence[str]) -> Vectors:
        drawn: Vectors = self._random.standard_normal((len(texts), self._width), np.float32)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return drawn

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.queries(texts)


class FreshQueries:
    """The model for queries, as always; for tools what was kept."""

    def __init__(self, encoder: Encoder) -> None:
        self._kept = Cached(encoder)
        self._encoder = encoder
        self.name = encoder.name

    def documents(self, texts: Sequence[str]) -> Vectors:
        return self._kept.documents(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.queries(texts)

    def save(self) -> None:
        self._kept.save()


def measure(level: str, size: int) -> Timing:
    entries = entries_of(size)
    if size == SIZES[1]:
        entries = in_servers(entries, SERVERS)
    catalog = catalog_of(entries)
    loaded = None if level == "lexical" else encoder_of(level)
    encoder: Encoder | None = loaded
    if loaded and level == "semantic":
        encoder = FreshQueries(loaded) if size <= MAX_EMBEDDED else _Unread(loaded)
    try:
        if isinstance(encoder, FreshQueries):
            _index(encoder, catalog, None)  # so that what is timed needs no model
            encoder.save()
        before = _resident_mib()
        watch = Watch()
        built = _index(encoder, catalog, None)
        built_s = watch.seconds
        grown_mib = _resident_mib() - before
        step = 2 if size > SIZES[1] else 1
        short, long = (_times(built, queries[::step]) for queries in (short_queries(), long_queries()))
        renewed_s = _renewed(encoder, catalog, built) if size == SIZES[1] else None
    finally:
        if loaded:
            loaded.close()
    return Timing(level, len(entries), built_s, grown_mib, percentiles(short), percentiles(long), renewed_s)


Built = tuple[LexicalIndex, VectorIndex | None]


def _index(encoder: Encoder | None, catalog: Catalog, before: Built | None) -> Built:
    index = LexicalIndex(collections(catalog), before[0] if before else None)
    known = before[1] if before else None
    return index, VectorIndex(encoder, index, known) if encoder else None


def _times(built: Built, queries: Sequence[str]) -> list[float]:
    """Of each query the best of some, in milliseconds; in turn, so that a pause of the machine hits each once."""
    index, vectors = built
    is_alone = vectors is None or not isinstance(vectors.encoder, FreshQueries | _Unread)
    best = [float("inf")] * len(queries)
    for _ in range(_ROUNDS):
        for number, query in enumerate(queries):
            watch = Watch(is_alone)
            rank(index, vectors, query, None, DEPTH)
            best[number] = min(best[number], watch.seconds * 1e3)
    return best


def _renewed(encoder: Encoder | None, catalog: Catalog, built: Built) -> float:
    """Seconds for an index in which one server has one tool less."""
    listings = [server.listing for server in catalog.servers]
    one = listings[len(listings) // 2]
    listings[len(listings) // 2] = dataclasses.replace(one, tools=one.tools[:-1])
    after = Catalog.build(listings, catalog)
    if isinstance(encoder, FreshQueries):
        _index(encoder, after, None)
    watch = Watch()
    _index(encoder, after, built)
    return watch.seconds


def _resident_mib() -> float:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if statm.exists() else float("nan")


def _main(level: str, size: str) -> None:
    try:
        print(json.dumps(asdict(measure(level, int(size)))))
    except (Missing, Unavailable) as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    _main(*sys.argv[1:])
