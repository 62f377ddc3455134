"""Tools that several servers offer alike take one place among the results, and the others are named."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.results import SearchResults
from tests.search.test_answer import search


def tool(name: str, description: str, *parameters: str) -> ToolDefinition:
    properties: dict[str, Any] = {parameter: {"type": "string"} for parameter in parameters}
    return ToolDefinition(name, description, input_schema={"properties": properties})


def server(name: str, *tools: ToolDefinition, state: UpstreamState = UpstreamState.READY) -> UpstreamListing:
    return UpstreamListing(name, state, tools)


FETCH = tool("fetch", "Fetch a page of the web as markdown.", "url")
FETCH_TOO = tool("fetch", "Fetch a page from the web as markdown.", "url", "max_length")
ISSUE = ("owner", "repo", "title", "body")


def found(query: str, *listings: UpstreamListing, **arguments: Any) -> SearchResults:
    return search(query, list(listings), detail_level="name_only", **arguments)


def test_the_same_tool_of_several_servers_takes_one_place() -> None:
    answer = found("fetch a page", server("a", FETCH), server("b", FETCH_TOO), server("c", FETCH))
    assert answer.text == "a.fetch (also: b.fetch, c.fetch)"
    assert answer.as_json() == [{"server": "a", "name": "fetch", "also": ["b.fetch", "c.fetch"]}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            server("github", tool("create_issue", "Create an issue in a GitHub repository.", *ISSUE)),
            server("gitlab", tool("create_issue", "Create an issue in a GitLab repository.", *ISSUE)),
            id="each names the service that it is for",
        ),
        pytest.param(
            server("a", tool("search", "Search mails by sender or subject.", "query", "limit")),
            server("b", tool("search", "Search songs and albums.", "query", "limit")),
            id="they say different things",
        ),
        pytest.param(
            server("a", tool("search", "Search the archive.", "query")),
            server("b", tool("search", "Search the archive.", "year", "month")),
            id="they take different things",
        ),
        pytest.param(
            server("a", tool("search_files", "Search the archive.", "query")),
            server("b", tool("search_mails", "Search the archive.", "query")),
            id="they are called differently",
        ),
        pytest.param(
            server("a", tool("search", "", "query")),
            server("b", tool("search", "", "query")),
            id="nothing is said of them",
        ),
    ],
)
def test_tools_that_are_merely_related_stand_each_for_itself(one: UpstreamListing, other: UpstreamListing) -> None:
    assert len(found("search create issue", one, other).results) == 2


def test_a_tool_that_cannot_be_called_does_not_hide_one_that_can() -> None:
    down, up = server("a", FETCH, state=UpstreamState.FAILED), server("b", FETCH)
    assert found("fetch", down, up).text == "b.fetch (also: a.fetch)"
    assert found("fetch", down, server("b", FETCH, state=UpstreamState.FAILED)).text == (
        "a.fetch (also: b.fetch)  [unavailable: calls fail until it is back]"
    )
