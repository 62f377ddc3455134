"""A tool whose name is in the query comes first, however the name is spelled."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.documents import collections
from codemode_server.search.lexical import LexicalIndex
from codemode_server.search.ranking import rank


def listing(server: str, *names: str) -> UpstreamListing:
    tools = tuple(ToolDefinition(name, "Create, find and delete an issue of a repository") for name in names)
    return UpstreamListing(server, UpstreamState.READY, tools)


SERVERS = [
    listing("git-hub", "create_issue", "createIssueComment", "search", "list-issues"),
    listing("gitlab", "create_issue", "delete.issue"),
    listing("mail", "fetch_mail"),
    listing("web", "fetch"),
]
INDEX = LexicalIndex(collections(Catalog.build(SERVERS)))


def first(query: str) -> str:
    tool = rank(INDEX, None, query, None, 1)[0].thing
    assert isinstance(tool, Tool)
    return f"{tool.server}.{tool.name}"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("gitlab.create_issue", "gitlab.create_issue"),
        ("git_hub.create_issue", "git_hub.create_issue"),
        ("git_hub create issue", "git_hub.create_issue"),
        ("servers/gitlab/create_issue.py", "gitlab.create_issue"),
        ("mcp__gitlab__create_issue", "gitlab.create_issue"),
        ("from servers.gitlab import create_issue", "gitlab.create_issue"),
        ("the signature of `git_hub.create_issue_comment`, please", "git_hub.createIssueComment"),
        ("createIssueComment", "git_hub.createIssueComment"),
        ("how is list-issues() called?", "git_hub.list_issues"),
        ("delete.issue", "gitlab.delete_issue"),
        ("search", "git_hub.search"),
        ("fetch", "web.fetch"),
        ("delete the issue that create_issue_comment was about", "git_hub.createIssueComment"),
    ],
)
def test_a_tool_that_the_query_names_comes_first(query: str, found: str) -> None:
    assert first(query) == found
