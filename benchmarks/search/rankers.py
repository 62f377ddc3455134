"""The product's rankers on a corpus, and the two figures that compare their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.search.corpora import Corpus
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.config.settings import SearchSettings
from codemode_server.domain.errors import CodemodeError
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import Scored, rank
from codemode_server.search.semantic import SemanticEncoder
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vectors import Encoder, VectorIndex
from codemode_server.storage.cache import VECTORS, Cache
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread

RANKERS = ("lexical", "static", "semantic")
DEPTH = 10
CACHE = Path(__file__).parents[2] / ".cache" / "search"


class Unavailable(Exception):
    """Raised when a ranker can't be loaded here."""


class Ranker:
    """One ranker of the product."""

    def __init__(self, name: str) -> None:
        """Loads its encoders.

        Raises:
            Unavailable: they can't be loaded here.
        """
        self.name = name
        self._closing = ExitStack()
        self._encoders: list[Encoder] = [] if name == "lexical" else [StaticEncoder()]
        if name == "semantic":
            settings = SearchSettings(ranker="semantic")
            database, thread = Database(CACHE), DatabaseThread(CACHE)
            self._closing.callback(database.close)
            self._closing.callback(thread.close)
            cache = Cache(database, thread, VECTORS)
            self._encoders.insert(0, SemanticEncoder(settings, cache, may_download=False))
        for encoder in self._encoders:
            try:
                encoder.load()
            except CodemodeError as error:
                raise Unavailable(str(error)) from error

    def close(self) -> None:
        for encoder in self._encoders:
            encoder.close()
        self._closing.close()

    def indexed(self, catalog: Catalog) -> Callable[[str], list[Scored]]:
        """What ranks the tools of a catalog for a query, best first."""
        words = LexicalIndex(collections(catalog))
        first, second = (*(VectorIndex(encoder, words) for encoder in self._encoders), None, None)[:2]
        return lambda query: rank(words, first, query, None, DEPTH, second_vectors=second)

    def ranked(self, corpus: Corpus) -> list[list[str]]:
        """The ids of the results of each query, best first."""
        best = self.indexed(corpus.catalog)
        tools = [[one.thing for one in best(query.text)] for query in corpus.queries]
        return [[corpus.ids[tool.server, tool.name] for tool in some if isinstance(tool, Tool)] for some in tools]


def ndcg(found: Sequence[str], relevant: frozenset[str]) -> float:
    """nDCG@10, with each relevant tool worth the same."""
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(found[:DEPTH]) if one in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(relevant))))


def top1(found: Sequence[str], relevant: frozenset[str]) -> float:
    """Whether the first is right."""
    return float(bool(found) and found[0] in relevant)
