"""The ranking on public queries does not fall below what `make bench-search` reports, rounded down.

Real catalogs, the product's index and encoders.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.search.corpora import EVERYDAY, OWN, Missing, corpus
from benchmarks.search.rankers import Ranker, Unavailable, ndcg, top1

pytestmark = pytest.mark.slow


def results(ranker: str, name: str) -> tuple[list[list[str]], list[tuple[str, frozenset[str]]]]:
    """The ids that a ranker finds for each query of a set, and the kind and right tools of each query."""
    try:
        asked = corpus(name)
        found = Ranker(ranker).ranked(asked)
    except (Missing, Unavailable) as reason:
        pytest.skip(str(reason))
    return found, [(query.kind, query.relevant) for query in asked.queries]


@pytest.mark.timeout(400)  # toolbench alone takes half a minute on two free cores
@pytest.mark.parametrize(
    ("ranker", "name", "floor"),
    [
        ("lexical", "azure", 0.93),
        ("lexical", "livemcp_step", 0.64),
        ("static", "azure", 0.93),
        ("static", "livemcp_step", 0.69),
        ("static", "toolbench", 0.8),
    ],
)
def test_public_queries_find_their_tools(ranker: str, name: str, floor: float) -> None:
    found, queries = results(ranker, name)
    assert np.mean([ndcg(ids, relevant) for ids, (_, relevant) in zip(found, queries, strict=True)]) >= floor


@pytest.mark.parametrize("ranker", ["lexical", "static"])
def test_a_tool_that_is_named_in_any_spelling_comes_first(ranker: str) -> None:
    """Raw and Python names, `server.tool`, import lines, paths, `mcp__server__tool`, over 1,469 tools of 35 servers."""
    found, queries = results(ranker, OWN)
    firsts = [top1(ids, right) for ids, (kind, right) in zip(found, queries, strict=True) if kind == "exact name"]
    assert len(firsts) > 20
    assert np.mean(firsts) >= 0.9


@pytest.mark.parametrize(("ranker", "least"), [("lexical", 22), ("static", 35)])
def test_everyday_words_find_the_tool_among_the_first_three(ranker: str, least: int) -> None:
    """Of the 81 queries of one kind."""
    found, queries = results(ranker, EVERYDAY)
    hits = [bool(right & set(ids[:3])) for ids, (kind, right) in zip(found, queries, strict=True) if kind == "verify"]
    assert len(hits) == 81
    assert sum(hits) >= least
