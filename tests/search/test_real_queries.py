"""Queries that a blind trial asked, over the tools of real servers: what a person would expect comes first."""

from __future__ import annotations

import pytest

from benchmarks.search.corpora import OWN, Missing, catalog_of, corpus
from codemode_server.catalog.catalog import Catalog
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults


@pytest.fixture(scope="module")
def real_tools() -> tuple[Catalog, RankerStack]:
    try:
        catalog = catalog_of(corpus(OWN).entries)
    except Missing as reason:
        pytest.skip(str(reason))
    levels = RankerStack()
    levels.index(collections(catalog))
    return catalog, levels


def ask(
    real_tools: tuple[Catalog, RankerStack], query: str, server: str | None = None
) -> tuple[SearchResults, list[str]]:
    answer = search_tools(*real_tools, query, server=server, limit=3)
    return answer, [found.name for found in answer.results]


@pytest.mark.parametrize("server", ["git", "cyanheads_git"])
def test_commit_history_is_answered_by_the_log_and_not_by_what_commits(
    real_tools: tuple[Catalog, RankerStack], server: str
) -> None:
    assert ask(real_tools, "commit history", server)[1][0] == f"{server}.git_log"
    both = ask(real_tools, "commit history and diffs", server)[1]
    assert both[:2] == [f"{server}.git_log", f"{server}.git_diff"]


def test_files_changed_in_commits_are_answered_by_what_shows_them_and_not_by_a_commit(
    real_tools: tuple[Catalog, RankerStack],
) -> None:
    assert ask(real_tools, "files changed in recent commits", "git")[1][0] == "git.git_diff"
    assert ask(real_tools, "changed files in git history", "cyanheads_git")[1][0] == "cyanheads_git.git_log"


def test_two_things_on_one_server_come_first_in_the_order_asked(real_tools: tuple[Catalog, RankerStack]) -> None:
    found = ask(real_tools, "read a file and list a directory")[1]
    assert found[:2] == ["filesystem.read_text_file", "filesystem.list_directory"]


def test_values_in_quotes_do_not_make_an_answer_doubtful(real_tools: tuple[Catalog, RankerStack]) -> None:
    answer, found = ask(real_tools, "Replace the text 'Q3' with 'Q4' in the slides")
    assert answer.doubt == ""
    assert found[0].startswith("powerpoint.")
    assert "nothing fits" in ask(real_tools, "translate 'Q3' into Klingon with a theremin")[0].doubt


def test_a_query_without_a_verb_finds_no_tool_that_deletes_and_a_query_with_one_does(
    real_tools: tuple[Catalog, RankerStack],
) -> None:
    assert not [name for name in ask(real_tools, "pipelines and job logs")[1] if "delete" in name.lower()]
    assert all("delete" in name.lower() for name in ask(real_tools, "delete a file")[1])


@pytest.mark.parametrize(
    ("query", "server", "doubt"),
    [
        ("list pull requests", "cyanheads_git", 'none of these mentions "requests"; the first matches "pull"'),
        ("delete a file", "filesystem", 'none of these mentions "delete"; the first matches "file"'),
        ("gitlab merge request", None, 'none of these mentions "gitlab"; the first matches "merge", "request"'),
        ("write a file", "filesystem", ""),
    ],
)
def test_a_query_without_a_right_tool_gets_a_doubt(
    real_tools: tuple[Catalog, RankerStack], query: str, server: str | None, doubt: str
) -> None:
    assert ask(real_tools, query, server)[0].doubt == doubt
