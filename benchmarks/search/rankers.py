"""The product's ranking of a corpus, and the two figures that say how good it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.search.corpora import Corpus
from codemode_server.catalog.catalog import Tool
from codemode_server.search.documents import collections
from codemode_server.search.ranker import Ranker

DEPTH = 10


def ranked(corpus: Corpus) -> list[list[str]]:
    """The ids of the results of each query, best first."""
    ranker = Ranker()
    ranker.index(collections(corpus.catalog))
    tools = [[one.thing for one in ranker.rank(query.text, DEPTH)] for query in corpus.queries]
    return [[corpus.ids[tool.server, tool.name] for tool in some if isinstance(tool, Tool)] for some in tools]


def ndcg(found: Sequence[str], relevant: frozenset[str]) -> float:
    """nDCG@10, with each relevant tool worth the same."""
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(found[:DEPTH]) if one in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(relevant))))


def top1(found: Sequence[str], relevant: frozenset[str]) -> float:
    """Whether the first is right."""
    return float(bool(found) and found[0] in relevant)
