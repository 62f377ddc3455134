"""Which tools of a server are taken, and what is said of them. Pure, but for one real server that breaks the schema."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.tools import Effect
from codemode_server.redaction import Redactor
from codemode_server.upstreams._link import Answer
from codemode_server.upstreams._listings import describe_server, effect_of, list_tools
from tests.upstreams.kit import Kit


async def test_one_off_schema_tool_costs_only_itself(kit: Kit) -> None:
    """mcp's `list_tools` loses all of them."""
    async with kit.pool({"s": kit.raw("off_schema")}) as pool:
        listing = kit.listing(pool, "s")
        assert [tool.name for tool in listing.tools] == ["a", "loose", "list_out"]
        assert listing.tools[1].input_schema == {"type": "object"}
        assert listing.tools[2].output_schema == {"type": "array"}
        assert [problem.split(":")[0] for problem in listing.problems] == [
            "tool 'loose'",
            "tool 'wrong'",
            "tool 'text'",
            "tool number 6",
            "tool 'a'",
            "tool number 8",
            "tool 'huge'",
        ]
        assert (await pool.call_tool("s", "a", {})).value == "ok"


async def test_a_tool_whose_name_holds_a_secret_is_left_out() -> None:
    """Masked, it could not be called; the others are listed masked."""
    secret = "hunter2-hunter2"
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("plain", f"get_{secret}")]

    class Pages:
        async def request(self, method: str, params: dict[str, Any]) -> Answer:
            told = {"name": "told", "description": secret, "inputSchema": {"type": "object"}}
            return Answer({"tools": [*tools, told]})

    found = await list_tools(Pages(), refuse_schema=lambda _: None, redact=Redactor([secret]).value)
    assert [(tool.name, tool.description) for tool in found.tools] == [("plain", ""), ("told", "***")]
    assert found.problems == ("tool 'get_***': its name or URI holds a secret of the configuration",)


async def test_pages_are_followed_to_their_end_but_not_for_ever(kit: Kit) -> None:
    async with kit.pool({"three": kit.raw("pages"), "endless": kit.raw("endless_pages")}) as pool:
        assert [tool.name for tool in kit.listing(pool, "three").tools] == ["t0", "t1", "t2"]
        assert kit.listing(pool, "endless").problems == ("tools/list: only the first 200 pages are taken",)


@pytest.mark.parametrize(
    ("annotations", "effect"),
    [
        (None, Effect.UNKNOWN),
        ("what", Effect.UNKNOWN),
        ({}, Effect.UNKNOWN),
        ({"readOnlyHint": True}, Effect.READS),
        ({"destructiveHint": True}, Effect.DESTROYS),
        ({"readOnlyHint": False}, Effect.DESTROYS),
        ({"readOnlyHint": False, "destructiveHint": False}, Effect.WRITES),
        ({"destructiveHint": False}, Effect.WRITES),
    ],
)
def test_effect_follows_the_hints_and_the_specifications_defaults(annotations: Any, effect: Effect) -> None:
    """MCP, ToolAnnotations: `destructiveHint` counts only where `readOnlyHint` is false, and is true by default."""
    assert effect_of(annotations) is effect


@pytest.mark.parametrize(
    ("description", "instructions", "said"),
    [
        ("Is for files.", "Use me.", "Is for files."),
        (None, "# Git\n\nReads \x1b[1mGit\x1b[0m\nrepositories. And more.", "Reads Git repositories."),
        (None, "## Only a heading", "Only a heading"),
        (None, None, ""),
        (None, "Reads https://hunter22@h/hunter22/x of *all* users.", "Reads https://***@h/***/x of all users."),
        (None, "Uses key hunter22 for **all** calls.", "Uses key *** for all calls."),
        (None, "hunter22 opens the door.", "*** opens the door."),
        (None, "# Notes of hunter22", "Notes of ***"),
        (None, "# **Notes**", "Notes"),
        (None, "Reads ***all*** pages.", "Reads all pages."),
        (None, "*** Reads pages ***", "Reads pages ***"),
        (None, "***\n\nReads pages.", "Reads pages."),
    ],
)
def test_a_server_is_described_by_its_first_sentence_which_shows_where_a_secret_was(
    description: str | None, instructions: str | None, said: str
) -> None:
    """Stars that are markup, the positive control, are taken out."""
    assert describe_server(description, instructions, Redactor(["hunter22"])) == said
