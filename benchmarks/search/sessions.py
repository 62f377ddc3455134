"""What the servers that a session has called before change for its next search, by the static ranker."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import numpy as np

from benchmarks.report import table
from benchmarks.search.corpora import Corpus, Query
from benchmarks.search.rankers import DEPTH, ndcg, top1
from codemode_server.catalog.catalog import Tool
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank
from codemode_server.search.static import StaticEncoder
from codemode_server.search.usage_stats import session_boost
from codemode_server.search.vectors import VectorIndex

STEPS = "livemcp_step"
"""The steps of real tasks in their order, whose ids are `step-<task>-<number>`."""
_Figures = list[tuple[float, float]]


def session_section(corpora: Sequence[Corpus]) -> str:
    """A table of nDCG@10 and of right first results, and a line on the steps of tasks."""
    encoder = StaticEncoder()
    encoder.load()
    rows, line = [], ""
    for one in corpora:
        searched = _searcher(encoder, one)
        servers = sorted(one.catalog.by_name)
        columns: tuple[_Figures, ...] = ([], [], [], [])
        for query in filter(lambda query: query.relevant, one.queries):
            right = _servers_of(one, query)
            ids, by = searched(query, frozenset())
            rival = next((server for server in by if server not in right), "")
            unrelated = next(it for it in (*servers[servers.index(min(right)) :], *servers) if it not in right)
            for column, called in zip(columns, (set[str](), right, {unrelated}, {rival}), strict=True):
                found = searched(query, called)[0] if called else ids
                column.append((ndcg(found, query.relevant), top1(found, query.relevant)))
        rows.append([one.name, *map(_shown, columns)])
        if one.name == STEPS:
            line = _steps(one, searched)
    heads = ["queries", "nothing called", "right server called", "unrelated server called", "nearest rival called"]
    return f"## Within a session\n\n{table(heads, rows)}{line}"


def _searcher(encoder: StaticEncoder, corpus: Corpus) -> Callable[[Query, Set[str]], tuple[list[str], list[str]]]:
    """Gives the ids and the servers of the results, best first."""
    index = LexicalIndex(collections(corpus.catalog))
    vectors = VectorIndex(encoder, index)

    def searched(query: Query, called: Set[str]) -> tuple[list[str], list[str]]:
        found = rank(index, vectors, query.text, None, DEPTH, session_boost(index, called))
        tools = [it.thing for it in found if isinstance(it.thing, Tool)]
        return [corpus.ids[it.server, it.name] for it in tools], [it.server for it in tools]

    return searched


def _servers_of(corpus: Corpus, query: Query) -> set[str]:
    return {server for (server, _), tool in corpus.ids.items() if tool in query.relevant}


def _steps(corpus: Corpus, searched: Callable[[Query, Set[str]], tuple[list[str], list[str]]]) -> str:
    """Each later step of a task, with the servers of the right tools of its earlier steps as called."""
    called: dict[str, set[str]] = {}
    before: _Figures = []
    after: _Figures = []
    for query in corpus.queries:
        servers = called.setdefault(query.id.rpartition("-")[0], set())
        if servers:
            for column, some in ((before, set[str]()), (after, servers)):
                ids, _ = searched(query, some)
                column.append((ndcg(ids, query.relevant), top1(ids, query.relevant)))
        servers |= _servers_of(corpus, query)
    change = np.sign([now[0] - then[0] for then, now in zip(before, after, strict=True)])
    return (
        f"\nThe {len(before)} later steps of the tasks of `{STEPS}`, once servers of their earlier steps have been\n"
        f"called: {_shown(after)}, without that {_shown(before)}; {np.sum(change > 0)} are better and "
        f"{np.sum(change < 0)} worse.\n\nThe tools of servers that a session has called get a tenth more, and at most "
        "three results move up.\n"
    )


def _shown(figures: _Figures) -> str:
    gain, first = np.mean(figures, axis=0)
    return f"{gain:.3f} ({first:.3f})"
