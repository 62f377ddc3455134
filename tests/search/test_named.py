"""A thing that a query names outright comes first, in whatever way it is spelled."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.model import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank


def listing(server: str, *names: str) -> UpstreamListing:
    tools = tuple(ToolDefinition(name, "Create, find and delete an issue of a repository") for name in names)
    return UpstreamListing(server, UpstreamState.READY, tools)


INDEX = LexicalIndex(
    collections(
        Catalog.build(
            [
                listing("git-hub", "create_issue", "createIssueComment", "search", "list-issues"),
                listing("gitlab", "create_issue", "delete.issue"),
            ]
        )
    )
)


def named(query: str) -> set[str]:
    things = [INDEX.things[number] for number in INDEX.names.in_query(query)]
    return {f"{tool.server}.{tool.name}" for tool in things if isinstance(tool, Tool)}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("create_issue", {"git_hub.create_issue", "gitlab.create_issue"}),
        ("create issue", {"git_hub.create_issue", "gitlab.create_issue"}),
        ("createIssue", {"git_hub.create_issue", "gitlab.create_issue"}),
        ("gitlab.create_issue", {"gitlab.create_issue"}),
        ("git-hub.create_issue", {"git_hub.create_issue"}),
        ("git_hub.create_issue", {"git_hub.create_issue"}),
        ("servers/gitlab/create_issue.py", {"gitlab.create_issue"}),
        ("mcp__gitlab__create_issue", {"gitlab.create_issue"}),
        ("the signature of `git_hub.create_issue_comment`, please", {"git_hub.createIssueComment"}),
        ("how is list-issues() called?", {"git_hub.list_issues"}),
        ("delete.issue", {"gitlab.delete_issue"}),
        ("search", {"git_hub.search"}),
        ("search for something else", set()),
        ("an issue tracker", set()),
        ("", set()),
    ],
)
def test_what_a_query_names(query: str, found: set[str]) -> None:
    assert named(query) == found


def test_what_is_named_comes_first() -> None:
    best = rank(INDEX, (), "delete the issue that create_issue_comment was about", None, 1)[0].thing
    assert best.name == "createIssueComment"


def test_a_query_of_thousands_of_names_costs_a_bounded_look() -> None:
    assert named(" ".join(f"tool_{number}" for number in range(5_000)) + " create_issue") == set()
