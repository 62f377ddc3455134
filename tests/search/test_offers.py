"""A query for resources or prompts in general, or for a resource: what the answer says beside the tools."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.resources import PromptArgument, PromptDefinition, ResourceDefinition
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.results import SearchResults

READY = UpstreamState.READY
DOCS = UpstreamListing(
    "docs",
    READY,
    (ToolDefinition("count_words", "Count the words of a text."),),
    resources=(
        ResourceDefinition("docs://architecture", "architecture.md", description="Parts of the program."),
        ResourceDefinition("docs://{id}", "page", is_template=True),
    ),
    prompts=(
        PromptDefinition("args-prompt", arguments=(PromptArgument("city", is_required=True), PromptArgument("state"))),
    ),
)
FILES = UpstreamListing("files", READY, resources=(ResourceDefinition("file:///a", "a"),))
GIT = UpstreamListing(
    "git",
    READY,
    (
        ToolDefinition("git_branch", "List branches."),
        ToolDefinition("list_resource_groups", "List the resource groups of an account."),
    ),
)
HEADER = 'resources; list_dir("/servers/<server>/resources") lists them:'
IN_DOCS = "  docs: 1 resource and 1 template: from servers.docs import resources"
IN_FILES = "  files: 1 resource: from servers.files import resources"
PROMPTS = "prompts are for the user, who chooses them in the host: docs/args-prompt(city, state?)"


def search(query: str, *listings: UpstreamListing, server: str | None = None) -> SearchResults:
    catalog = Catalog.build(listings or (DOCS, FILES, GIT))
    rankers = RankerStack()
    rankers.index(collections(catalog))
    return search_tools(catalog, rankers, query, server=server)


@pytest.mark.parametrize("query", ["resources", "read a resource", "list resources", "all available MCP resources"])
def test_resources_in_general_are_answered_by_a_line_for_each_server_that_has_some(query: str) -> None:
    assert search(query).text.split("\n")[:3] == [HEADER, IN_DOCS, IN_FILES]


def test_those_of_one_server_by_its_line() -> None:
    for found in (search("resources of docs"), search("resources", server="docs")):
        assert found.text.startswith(f"{HEADER}\n{IN_DOCS}\n")
        assert IN_FILES not in found.text


def test_a_query_that_only_has_the_word_gets_no_such_line() -> None:
    found = search("list resource groups")
    assert found.results[0].name == "git.list_resource_groups"
    assert HEADER not in found.text
    assert HEADER not in search("resources", GIT).text


def test_many_servers_take_eleven_lines() -> None:
    many = [UpstreamListing(f"docs{n:02}", READY, resources=FILES.resources) for n in range(30)]
    lines = search("resources", *many).text.split("\n")
    assert lines[11] == '  and 20 more servers; list_dir("/servers") counts them'


@pytest.mark.parametrize("query", ["prompts", "list prompts", "args-prompt", "prompts of docs"])
def test_prompts_are_answered_by_whose_they_are_and_their_names(query: str) -> None:
    found = search(query)
    assert found.text.startswith(PROMPTS)
    assert "nothing f" not in found.text


def test_programs_get_them_as_dicts() -> None:
    assert search("resources").as_json()[0] == {
        "server": "docs",
        "name": "resources",
        "kind": "resources",
        "path": "/servers/docs/resources",
        "import": "from servers.docs import resources",
        "description": "1 resource and 1 template",
    }
    assert search("prompts").as_json()[0]["name"] == "docs/args-prompt(city, state?)"


def test_what_a_shown_resource_mentions_is_not_said_to_be_missing() -> None:
    found = search("architecture of git")
    assert [it.name for it, _ in found.resources] == ["architecture.md"]
    assert "mentions" not in found.text
    assert 'none of these mentions "constellation"' in search("constellation of git").text, "control"


def test_where_no_tool_fits_the_resource_comes_first_and_nothing_is_not_said() -> None:
    found = search("architecture", DOCS).text
    assert found.startswith("resources:\n")
    assert found.endswith("no tool matches")


def test_a_missing_word_is_told_with_those_that_the_first_result_has() -> None:
    assert search("protected branches").doubt == 'none of these mentions "protected"; the first matches "branches"'
