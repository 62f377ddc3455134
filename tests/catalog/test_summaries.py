"""The one line that a model sees of a tool or a server: it says what the thing does, whatever the description begins
with. Driven through `Catalog.build` and the listing; the shapes of the descriptions are those of real servers."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import Tree, tool_line
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.results import SearchResult
from codemode_server.upstreams.listings import describe_server

GUARD = "\n    🛡️ Guardrails:\n      1. Data Modification Warning: This tool modifies data. Only use it on request.\n\n"
CRM = UpstreamListing(
    "crm",
    UpstreamState.READY,
    (
        ToolDefinition("create_deal", f"{GUARD}    🎯 Purpose:\n      1. Creates a deal for a company.\n"),
        ToolDefinition("update_deal", f"{GUARD}    🎯 Purpose:\n      1. Updates the stage of a deal.\n"),
        ToolDefinition(
            "merge_deals", f"{GUARD}    🎯 Purpose\n      1. Merges two deals.\n      2. Keeps both histories."
        ),
        ToolDefinition("list_deals", "\n    🎯 Purpose:\n      1. Lists deals.\n\n    📦 Returns:\n      1. A page.\n"),
    ),
)


def summary(description: str, title: str | None = None) -> str:
    listing = UpstreamListing("one", UpstreamState.READY, (ToolDefinition("do_it", description, title),))
    return Catalog.build([listing]).tool("one", "do_it").summary


def test_an_opening_that_several_tools_share_is_skipped_in_the_listing_in_search_and_in_programs() -> None:
    catalog = Catalog.build([CRM])
    assert Tree(catalog).list_dir("/servers/crm").text.split("\n")[1:] == [
        "create_deal.py  Creates a deal for a company.",
        "list_deals.py  Lists deals.",
        "merge_deals.py  Merges two deals.",
        "update_deal.py  Updates the stage of a deal.",
    ]
    found = SearchResult(catalog.tool("crm", "update_deal"), "", "with_description")
    assert found.summary == found.as_json()["description"] == "Updates the stage of a deal."


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("Creates a [fork](https://x.example/a_(b)) of **one** collection. More.", "Creates a fork of one collection."),
        ("# Search\n\nSearches *all* pages.", "Searches all pages."),
        ("Overview: reads a file.", "reads a file."),
        ("Updates its \\`name\\`.", "Updates its `name`."),
        ("- Lists branches\n- Lists tags", "Lists branches"),
        ("```sql\nSELECT 1\n```\nRuns a query.", "Runs a query."),
        ("<use_case>\nConverts currencies.\n</use_case>", "Converts currencies."),
        ("Selects an option of a <select> element.", "Selects an option of a <select> element."),
        ("IMPORTANT: Run this first. Returns the tools that are on.", "Returns the tools that are on."),
        ("Adds (2-36), a * b, snake_case and __init__.", "Adds (2-36), a * b, snake_case and __init__."),
        ("创建问题。需要令牌。", "创建问题。"),
        (
            f"Make a request to /accounts/addresses/{{Sid}}.json (Default: {'A' * 80})",
            "Make a request to /accounts/addresses/{Sid}.json…",
        ),
        ("", ""),
    ],
)  # fmt: skip
def test_markup_headings_and_rules_are_not_the_line(description: str, line: str) -> None:
    assert summary(description) == line


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("The request ID must contain the team ID as a prefix.\n\nFor example, `1-2`.", "Create a comment"),
        ("**This endpoint is deprecated.**\n\nMerges a fork back.", "Create a comment"),
        ("Comments on a request. The ID must contain the team.", "Comments on a request."),
    ],
)
def test_a_tool_whose_description_begins_with_a_rule_is_described_by_its_title_and_so_is_its_stub(
    description: str, line: str
) -> None:
    assert summary(description, title="Create a comment") == line
    definition = ToolDefinition("do_it", description, "Create a comment")
    stub = Catalog.build([UpstreamListing("one", UpstreamState.READY, (definition,))]).tool("one", "do_it").stub
    assert stub.source.split('    """')[1].startswith(line)


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("Read a file. DEPRECATED: Use read_text_file instead.", "Read a file. (deprecated) (reads)"),
        ("Read a file.\n\n**This endpoint is deprecated.**", "Read a file. (deprecated) (reads)"),
        ("[DEPRECATED] Read a file.", "[DEPRECATED] Read a file. (reads)"),
        ("Read a file. The parameter `head` is deprecated.", "Read a file. (reads)"),
        ("Read a file. Deprecated encodings are read as well.", "Read a file. (reads)"),
    ],
)
def test_a_tool_that_says_that_it_is_deprecated_is_marked_in_the_list_of_its_server(
    description: str, line: str
) -> None:
    listing = UpstreamListing("one", UpstreamState.READY, (ToolDefinition("f", description, effect=Effect.READS),))
    assert Tree(Catalog.build([listing])).list_dir("/servers/one").text.split("\n")[1:] == [f"f.py  {line}"]


@pytest.mark.parametrize(
    ("instructions", "line"),
    [
        ("# Everything\n\nAudience: These instructions are written for an LLM.\nFollow them to use the server.\n\n"
         "- Use `get_roots` to see the folders of the client before any file is read\n- Enable `logging` first", ""),
        ("You are an agent to call the API. If no id is provided, you MUST use AC1.", ""),
        ("Cloud usage rules:\n- Use our tools: When handling requests, always use your tools.", ""),
        ("When working on SQL, consider the official skills: https://x.example", ""),
        ("The official server for tables\n\nThis server provides expertise.", "The official server for tables"),
        ("It has two functions:\n\n# ONE\nAccess prices by service code:\n1. x", "Access prices by service code"),
        ("\n  # Docs\n\n  This server provides search.\n", "This server provides search."),
    ],
)  # fmt: skip
def test_a_server_is_described_by_what_its_instructions_say_it_is_for_never_by_orders_to_an_agent(
    instructions: str, line: str
) -> None:
    assert describe_server(None, instructions) == line


def test_no_tool_of_the_real_servers_shows_a_line_that_says_nothing(real_catalog: Catalog) -> None:
    """Measured before: 330 of 1,469 tools showed a sentence that several tools of their server shared, or a label."""
    lines = [(tool.path, tool.summary) for tool in real_catalog.tools()]
    assert [path for path, line in lines if not line or line.endswith(":") or "](" in line or "**" in line] == []
    for server in real_catalog.servers:
        shown = [tool_line(tool) for tool in server.tools]
        repeated = {line for line in shown if shown.count(line) > 2}
        assert len(repeated) <= 2, (server.name, repeated)
