"""What `search_tools` says with such a ranking: how much it shows, what its cut costs, and whether it says that nothing
fits where nothing does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import bpe_openai
import numpy as np

from benchmarks.search.corpora import OWN, Corpus, catalog_of, ids_of, own_queries
from benchmarks.search.metrics import DEPTH
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.encoding.build_encoders import TableEncoder
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults
from codemode_server.search.vector_ranker import VectorRanker

_SECONDS = 120.0
_ENCODING = bpe_openai.get_encoding("o200k_base")


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to the queries of one set."""

    name: str
    queries: int
    shown: float
    """Results of an answer; a mean, as the next."""
    tokens: float
    """Of an answer with descriptions."""
    kept: float | None
    """Of the right tools that are ranked among the first ten, the share that is named; none where no tool is right."""
    nothing_said: float
    """Share of the queries that are told that nothing fits."""
    words_said: float
    """Share of the queries that are told which of their words no result mentions."""


def answers(corpora: Sequence[Corpus], level: str) -> Iterator[Answers]:
    """Of the sets, and of the queries for which there is no tool."""
    for corpus in corpora:
        with _levels(corpus, level) as (catalog, levels):
            yield _of(corpus, corpus.name, catalog, levels)
            if corpus.name == OWN:
                yield _of(corpus.asking(own_queries("nothing.jsonl")), "no tool for it", catalog, levels)


def _of(corpus: Corpus, name: str, catalog: Catalog, levels: RankerStack) -> Answers:
    ids = ids_of(catalog, corpus.entries)
    given = [search_tools(catalog, levels, query.text) for query in corpus.queries]
    ranked = kept = 0
    for query, answer in zip(corpus.queries, given, strict=True):
        best = [one.thing for one in levels.rank(query.text, DEPTH).found if isinstance(one.thing, Tool)]
        right = {ids[tool.server, tool.name] for tool in best} & query.relevant
        ranked += len(right)
        kept += len(right & {ids[tool.server, tool.name] for tool in answer.tools})
    return Answers(
        name,
        len(given),
        float(np.mean([len(answer.results) for answer in given])),
        float(np.mean([len(_ENCODING.encode(answer.text)) for answer in given])),
        kept / ranked if ranked else None,
        float(np.mean([says_nothing_fits(answer) for answer in given])),
        float(np.mean([answer.doubt.startswith("none of these mentions") for answer in given])),
    )


def says_nothing_fits(answer: SearchResults) -> bool:
    """Not one of several wants alone: the whole query."""
    return not answer.results or "; nearest: " in answer.doubt


@contextmanager
def _levels(corpus: Corpus, level: str) -> Iterator[tuple[Catalog, RankerStack]]:
    catalog = catalog_of(corpus.entries)
    above = [] if level == "lexical" else [VectorRanker("static", TableEncoder())]
    levels = RankerStack(above)
    levels.index(collections(catalog))
    threads = [threading.Thread(target=one.keep) for one in above]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + _SECONDS
        while levels.status.level != level and time.monotonic() < deadline:
            time.sleep(0.02)
        assert levels.status.level == level, levels.status
        yield catalog, levels
    finally:
        levels.close()
        for thread in threads:
            thread.join()
