"""Which tools of a server are taken, and what is said of them. Pure, but for one real server that breaks the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import JSONRPCResponse

from codemode_server.domain.tools import Effect
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.answers import Answer
from codemode_server.upstreams.listings import ToolsFound, describe_server, effect_of, list_tools
from codemode_server.upstreams.messages import parse_line
from codemode_server.upstreams.repairs import read_handshake
from tests.upstreams.kit import Kit


async def listed(
    sent: list[Any] | None = None, redact: Callable[[Any], Any] = lambda value: value, **answer: Any
) -> ToolsFound:
    """The tools of a server that answers every request so. `sent` gets the parameters of the requests."""

    class Pages:
        async def request(self, method: str, params: dict[str, Any]) -> Answer:
            if sent is not None:
                sent.append(params)
            return Answer({**answer})

    return await list_tools(Pages(), refuse_schema=lambda _: None, redact=redact)


async def test_one_off_schema_tool_costs_only_itself(kit: Kit) -> None:
    """mcp's `list_tools` loses all of them."""
    async with kit.pool({"s": kit.raw("off_schema")}) as pool:
        listing = kit.listing(pool, "s")
        assert [tool.name for tool in listing.tools] == ["a", "loose", "list_out"]
        assert list(listing.left_out) == ["wrong", "text", "number 6", "number 8", "huge"]
        assert listing.tools[1].input_schema == {"type": "object"}
        assert listing.tools[2].output_schema == {"type": "array"}
        assert listing.problems == ("tool 'a' is listed twice, with two definitions; the first one is used",)
        assert (await pool.call_tool("s", "a", {})).value == "ok"


async def test_a_tool_whose_name_holds_a_secret_is_left_out() -> None:
    """Masked, it could not be called; the others are listed masked."""
    secret = "hunter2-hunter2"
    tools = [{"name": "plain"}, {"name": f"get_{secret}"}, {"name": "told", "description": secret}]
    found = await listed(tools=tools, redact=Redactor([secret]).value)
    assert [(tool.name, tool.description) for tool in found.tools] == [("plain", ""), ("told", "***")]
    assert found.left_out == {"get_***": "its name or URI holds a secret of the configuration"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, {}),
        ([], {}),
        (True, {}),
        ("{}", {}),
        ({"type": None}, {}),
        ({"type": ["null", "object"], "properties": []}, {"properties": {}}),
        ({"type": "Object", "properties": {"a": {"type": "STRING"}}}, {"properties": {"a": {"type": "string"}}}),
        ({"properties": {"a": [], "b": None}}, {"properties": {"a": {}, "b": {}}}),
        ({"properties": {"required": ["a"]}}, {"properties": {"required": ["a"]}}),
        ({"properties": {"c": "int"}}, {"properties": {"c": {"type": "integer"}}}),
        ({"properties": [{"name": "a", "type": "str"}]}, {"properties": {"a": {"name": "a", "type": "string"}}}),
        ({"properties": "what"}, {"properties": {}}),
        ({"x": {"type": "int"}, "type": {"type": "string"}},
         {"properties": {"x": {"type": "integer"}, "type": {"type": "string"}}}),
        ({"$defs": [], "additionalProperties": []}, {"$defs": {}, "additionalProperties": {}}),
        ({"properties": {"type": {"type": ["NULL"]}}}, {"properties": {"type": {"type": ["null"]}}}),
        ({"anyOf": [{"items": {"type": "DICT"}}]}, {"anyOf": [{"items": {"type": "object"}}]}),
        ({"enum": ["OBJECT"]}, {"enum": ["OBJECT"]}),
        ({"default": {"properties": []}, "required": []}, {"default": {"properties": []}, "required": []}),
    ],
)  # fmt: skip
async def test_a_schema_of_another_form_is_read_as_the_object_that_it_describes(written: Any, read: Any) -> None:
    found = await listed(tools=[{"name": "t", "inputSchema": written}])
    assert [tool.input_schema for tool in found.tools] == [{"type": "object", **read}]
    assert (found.left_out, found.problems) == ({}, ())


@pytest.mark.parametrize(
    "optional",
    [
        {"title": 3, "description": None, "annotations": []},
        {"annotations": "read", "icons": {}, "_meta": [], "execution": None},
        {"outputSchema": [], "annotations": {"readOnlyHint": "what", "title": []}},
        {"inputSchema": {"type": "object"}, "outputSchema": {}, "title": None},
    ],
)
async def test_an_optional_field_of_the_wrong_type_costs_nothing(optional: dict[str, Any]) -> None:
    found = await listed(tools=[{"name": "t", **optional}])
    assert [(tool.name, tool.title, tool.effect) for tool in found.tools] == [("t", None, Effect.UNKNOWN)]
    assert (found.left_out, found.problems) == ({}, ())


@pytest.mark.parametrize("said", [["a", "b"], {"a": {}, "b": {}}, '[{"name": "a"}, {"name": "b"}]'])
@pytest.mark.parametrize("key", ["tools", "toolResult"])
async def test_the_tools_of_a_listing_may_stand_in_an_object_or_be_all_of_it(key: str, said: Any) -> None:
    """`toolResult` stands for a result that is no object."""
    tools = [{"name": name} for name in said] if isinstance(said, list) else said
    found = await (listed(tools=tools) if key == "tools" else listed(toolResult=tools))
    assert [tool.name for tool in found.tools] == ["a", "b"]


@pytest.mark.parametrize(
    ("cursor", "asked"),
    [
        (None, [{}]),
        ("", [{}]),
        (0, [{}]),
        (2, [{}, {"cursor": 2}]),
        ("x", [{}, {"cursor": "x"}]),
        ({"page": 2}, [{}, {"cursor": {"page": 2}}]),
    ],
)
async def test_a_cursor_is_sent_back_as_it_came_and_once(cursor: Any, asked: list[Any]) -> None:
    """A server that ignores cursors lists the same tools again: nothing is left out."""
    sent: list[Any] = []
    found = await listed(sent, tools=[{"name": "a"}], nextCursor=cursor)
    assert (sent, [tool.name for tool in found.tools], found.left_out) == (asked, ["a"], {})


async def test_entries_that_are_refused_are_all_counted_and_hide_no_tool() -> None:
    found = await listed(tools=[{"name": "a"}, {"name": "a", "inputSchema": "no"}, *[3] * 100], nextCursor="x")
    assert [tool.name for tool in found.tools] == ["a"]
    assert (len(found.left_out), [*found.left_out][-1]) == (200, "number 204")
    assert found.problems[-1] == "another tool 'a' is left out: its inputSchema has type 'text'"


FIELDS = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}


@pytest.mark.parametrize(
    ("said", "version", "capabilities"),
    [
        ({}, "2025-11-25", set()),
        ({"protocolVersion": 20250618, "capabilities": None, "serverInfo": None}, "2025-06-18", set()),
        ({**FIELDS, "protocolVersion": "2025-07-09", "capabilities": []}, "2025-06-18", set()),
        ({**FIELDS, "protocolVersion": "1.0", "capabilities": True}, "2024-11-05", set()),
        ({**FIELDS, "capabilities": ["tools", "prompts"]}, "2025-06-18", {"tools", "prompts"}),
        ({**FIELDS, "capabilities": {"tools": [], "prompts": False}}, "2025-06-18", {"tools"}),
        ({**FIELDS, "capabilities": {"logging": True, "tools": ["a"]}}, "2025-06-18", {"tools", "logging"}),
        ({**FIELDS, "capabilities": {"resources": {"subscribe": []}}}, "2025-06-18", {"resources"}),
        ({**FIELDS, "serverInfo": {"version": 3}, "instructions": {"text": "hi"}}, "2025-06-18", {"tools"}),
        ({**FIELDS, "serverInfo": "s", "instructions": ["a", "b"], "_meta": []}, "2025-06-18", {"tools"}),
    ],
)
def test_a_handshake_needs_nothing_but_an_object(said: Any, version: str, capabilities: set[str]) -> None:
    read = read_handshake(said)
    assert (read.version, set(read.capabilities)) == (version, capabilities)
    assert read_handshake({**said, "supportedVersions": ["2026-07-28"]}).offered == ("2026-07-28",)


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
        ({"readOnlyHint": "true"}, Effect.READS),
        ({"readOnlyHint": 0, "destructiveHint": "False"}, Effect.WRITES),
        ([], Effect.UNKNOWN),
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbf", b""),
        (b"INFO ready ", b""),
        (b"[12:01] {x} -> ", b" done"),
        (b"\x1b[32mok\x1b[0m", b"\x1b[K"),
        (b'sent {"id": 3, "x": 1} ', b""),
        (b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\ndata: ', b"\n\n"),
        (b"", b'{"jsonrpc": "2.0", "id": 9, "result": {}}'),
    ],
)
def test_an_answer_with_other_text_around_it_is_read(before: bytes, after: bytes) -> None:
    answer = b'{"jsonrpc": "2.0", "id": 7.0, "result": {"a": 1}, "error": {}}'
    (message,) = parse_line(before + answer + after)
    assert message == JSONRPCResponse(jsonrpc="2.0", id=7, result={"a": 1})
