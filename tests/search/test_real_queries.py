"""Queries that a blind trial asked, over the tools of real servers: what a person would expect comes first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread

import pytest

from benchmarks.search.corpora import OWN, Missing, corpus
from codemode_server.catalog.catalog import Catalog
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults
from codemode_server.search.static import StaticEncoder
from codemode_server.search.vector_ranker import VectorRanker


@pytest.fixture(scope="module")
def real_tools() -> Iterator[tuple[Catalog, RankerStack]]:
    try:
        catalog = corpus(OWN).catalog
    except Missing as reason:
        pytest.skip(str(reason))
    static = VectorRanker("static", StaticEncoder())
    levels = RankerStack([static])
    levels.index(collections(catalog))
    keeping = Thread(target=static.keep, daemon=True)
    keeping.start()
    deadline = time.monotonic() + 60
    while levels.rank("file", 1).level != "static":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield catalog, levels
    static.close()
    keeping.join()


def ask(
    real_tools: tuple[Catalog, RankerStack], query: str, server: str | None = None
) -> tuple[SearchResults, list[str]]:
    answer = search_tools(*real_tools, query, server=server, limit=3)
    return answer, [found.name for found in answer.results]


@pytest.mark.parametrize(
    ("query", "server", "tools"),
    [
        ("read a file and list a directory", None, ["filesystem.read_text_file", "filesystem.list_directory"]),
        ("commit history and diffs", "git", ["git.git_log", "git.git_diff"]),
        ("send sms; list buckets", None, ["azure.communication_sms_send", "s3_tables.list_table_buckets"]),
    ],
)
def test_a_short_query_for_two_things_has_both_among_the_first_three(
    real_tools: tuple[Catalog, RankerStack], query: str, server: str | None, tools: list[str]
) -> None:
    assert set(tools) <= set(ask(real_tools, query, server)[1])


@pytest.mark.parametrize(
    "query",
    ["asdf", "blargh xyzzy", "mow the lawn", "who will win the election", "tune my guitar", "teach me to juggle"],
)
def test_a_topic_that_no_server_has_is_told(real_tools: tuple[Catalog, RankerStack], query: str) -> None:
    answer, _ = ask(real_tools, query)
    assert "nothing fits" in answer.doubt or not answer.results


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("commit history", "git_log"),
        ("Datei lesen", "read_"),
        ("delet jira isue", "jira_delete_issue"),
        ("envoyer un SMS", "sms"),
    ],
)
def test_a_hit_is_never_below_a_doubt(real_tools: tuple[Catalog, RankerStack], query: str, best: str) -> None:
    answer, found = ask(real_tools, query)
    assert (answer.doubt, best in found[0]) == ("", True)


def test_values_in_quotes_do_not_make_an_answer_doubtful(real_tools: tuple[Catalog, RankerStack]) -> None:
    answer, found = ask(real_tools, "Replace the text 'Q3' with 'Q4' in the slides")
    assert answer.doubt == ""
    assert found[0].startswith("powerpoint.")
    assert "nothing fits" in ask(real_tools, "translate 'Q3' into Klingon with a theremin")[0].doubt
