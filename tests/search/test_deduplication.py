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
        (
            ("github", tool("create_issue", "Create an issue in a GitHub repository.", *ISSUE)),
            ("gitlab", tool("create_issue", "Create an issue in a GitLab repository.", *ISSUE)),
        ),
        (
            ("a", tool("search", "Search mails by sender or subject.", "query", "limit")),
            ("b", tool("search", "Search songs and albums.", "query", "limit")),
        ),
        (("a", tool("search", "Search the archive.", "query")), ("b", tool("search", "Search the archive.", "year"))),
        (("a", tool("search_files", "Search it.", "query")), ("b", tool("search_mails", "Search it.", "query"))),
        (("a", tool("search", "", "query")), ("b", tool("search", "", "query"))),
    ],
    ids=["for two services", "with two descriptions", "with other parameters", "with two names", "without description"],
)
def test_tools_that_are_merely_related_stand_each_for_itself(
    one: tuple[str, ToolDefinition], other: tuple[str, ToolDefinition]
) -> None:
    assert len(found("search create issue", server(*one), server(*other)).results) == 2


def test_a_tool_that_cannot_be_called_does_not_hide_one_that_can() -> None:
    down, up = server("a", FETCH, state=UpstreamState.FAILED), server("b", FETCH)
    assert found("fetch", down, up).text == "b.fetch (also: a.fetch)"
    assert found("fetch", down, server("b", FETCH, state=UpstreamState.FAILED)).text == (
        "a.fetch (also: b.fetch)  [unavailable: calls fail until it is back]"
    )
