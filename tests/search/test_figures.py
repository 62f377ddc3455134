"""The ranking on public queries does not fall below what `make bench-search` reports, rounded down.

Real catalogs, the product's index.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.search.corpora import EVERYDAY, OWN, Missing, corpus
from benchmarks.search.rankers import ndcg, ranked, top1

pytestmark = pytest.mark.slow


def results(name: str) -> tuple[list[list[str]], list[tuple[str, frozenset[str]]]]:
    """The ids that are found for each query of a set, and the kind and right tools of each query."""
    try:
        asked = corpus(name)
    except Missing as reason:
        pytest.skip(str(reason))
    return ranked(asked), [(query.kind, query.relevant) for query in asked.queries]


@pytest.mark.timeout(400)  # toolbench alone takes half a minute on two free cores
@pytest.mark.parametrize(("name", "floor"), [("azure", 0.93), ("livemcp_step", 0.69), ("toolbench", 0.8)])
def test_public_queries_find_their_tools(name: str, floor: float) -> None:
    found, queries = results(name)
    assert np.mean([ndcg(ids, relevant) for ids, (_, relevant) in zip(found, queries, strict=True)]) >= floor


def test_a_tool_that_is_named_in_any_spelling_comes_first() -> None:
    """Raw and Python names, `server.tool`, import lines, paths, `mcp__server__tool`, over 1,469 tools of 35 servers."""
    found, queries = results(OWN)
    firsts = [top1(ids, right) for ids, (kind, right) in zip(found, queries, strict=True) if kind == "exact name"]
    assert len(firsts) > 20
    assert np.mean(firsts) >= 0.9


def test_everyday_words_find_the_tool_among_the_first_three() -> None:
    """Of the 81 queries of one kind."""
    found, queries = results(EVERYDAY)
    hits = [bool(right & set(ids[:3])) for ids, (kind, right) in zip(found, queries, strict=True) if kind == "verify"]
    assert len(hits) == 81
    assert sum(hits) >= 35
