"""What the list of tools says of the user's servers: names and signatures within `search.listed_tokens`, the same for a
whole session. Seen by a real client; the text itself also from listings made here, and of 35 real servers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.catalog.catalog import Catalog
from codemode_server.config import load
from codemode_server.config.settings import Settings
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.mcp_server.instructions import INSTRUCTIONS
from codemode_server.mcp_server.listing import Listing, listing_of
from codemode_server.mcp_server.tools.registry import definitions
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.startup.upstream_catalog import UpstreamCatalog
from tests.behaviour.product import configuration, in_memory, office
from tests.catalog.conftest import real_catalog, real_listings  # noqa: F401 - fixtures
from tests.vocabulary import tokens_of

ROOMS = {
    "type": "object",
    "properties": {"result": {"type": "array", "items": {"type": "string"}}},
    "required": ["result"],
}


def tool(name: str, *required: str, effect: Effect = Effect.READS, optional: tuple[str, ...] = ()) -> ToolDefinition:
    properties = {parameter: {"type": "string"} for parameter in (*required, *optional)}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolDefinition(name, input_schema=schema, effect=effect)


def catalog(**servers: tuple[ToolDefinition, ...]) -> Catalog:
    return Catalog.build(UpstreamListing(name, UpstreamState.WAITING, tools) for name, tools in servers.items())


def listing(
    found: Catalog,
    budget: int = 1_000,
    *,
    uses: dict[ToolName, Use] | None = None,
    redact: Callable[[str], str] = str,
    **settings: Any,
) -> Listing:
    return listing_of(
        found, Settings.model_validate({"search": {"listed_tokens": budget}, **settings}), uses or {}, redact
    )


def listed(found: Catalog, budget: int = 1_000, uses: dict[str, float] | None = None) -> str:
    now = 4e9  # a time to come counts as now
    known = {ToolName(*name.split(".")): Use(count, now) for name, count in (uses or {}).items()}
    return listing(found, budget, uses=known).tools


async def test_a_host_is_told_every_server_and_how_to_call_its_tools(tmp_path: Path) -> None:
    """A short task goes straight to a program: the signatures stand in the description of `execute_code`."""
    async with in_memory(configuration(tmp_path)) as host:
        tools = (await host.client.list_tools()).tools
        answer = await host.run("from servers.slack import get_channel_history\nget_channel_history(channel='x')")
    description = tools[3].description or ""
    assert "servers.slack:\nget_channel_history(channel: str) -> list[dict[str, str]]" in description
    names = "(github, google_drive, salesforce, slack)"
    assert names in (tools[2].description or "")[:150], "Qwen Code shows no more of a description"
    assert names not in description, "the names stand in the list below"
    assert isinstance(answer.value, list)


async def test_a_tool_that_the_permissions_refuse_is_not_listed(tmp_path: Path) -> None:
    rules = [{"deny": "github/create_issue"}, {"ask": "github/delete_*"}, {"deny": "slack"}]
    path = configuration(tmp_path, office(tmp_path, "github", "slack"), permissions={"rules": rules})
    async with in_memory(path) as host:
        description = (await host.client.list_tools()).tools[3].description or ""
    assert "list_issues(" in description
    assert "create_issue(" not in description
    assert "delete_" not in description
    assert "slack" not in description, "nothing of it can be called"


@pytest.mark.parametrize("is_called", [False, True])
async def test_tools_listed_for_the_first_time_are_shown_until_the_session_calls_a_tool(
    tmp_path: Path, *, is_called: bool
) -> None:
    """Hosts put the list of tools before everything else that they send, so a change of it costs their prompt cache;
    before the first call of a new user's first session there is nothing to lose, and his model gets the names."""
    path = configuration(tmp_path, office(tmp_path, "slack"))
    async with App.open(load(path)) as app, Client(app.front) as client:
        first = (await client.list_tools()).tools
        assert "servers.slack" in (first[3].description or "")
        assert "get_channel_history" not in (first[3].description or ""), "nothing is known of it, and nobody waits"
        if is_called:
            await client.call_tool("read_tool", {"path": "nothing"})
        app.connect()
        assert await app.pool.wait_settled(30)
        then = (await client.list_tools()).tools
        assert ("get_channel_history(" in (then[3].description or "")) != is_called
        assert (then == first) == is_called
        await client.call_tool("read_tool", {"path": "nothing"})
        assert (await client.list_tools()).tools == then


async def test_a_session_keeps_its_text_when_settings_change_and_the_next_one_gets_the_new(tmp_path: Path) -> None:
    path = configuration(tmp_path, office(tmp_path, "slack"))
    async with in_memory(path):
        pass
    before, edited = load(path), load(configuration(tmp_path, office(tmp_path, "slack"), search={"listed_tokens": 0}))
    async with App.open(before) as app, Client(app.front) as client:
        first = (await client.list_tools()).tools
        assert "get_channel_history(" in (first[3].description or ""), "as of the last run"
        app.config.replace(edited.settings, app.config.redactor)
        assert (await client.list_tools()).tools == first
    async with App.open(edited) as app, Client(app.front) as client:
        assert "slack" not in ((await client.list_tools()).tools[3].description or "")


async def test_the_first_list_is_the_product_s_own_also_if_a_server_s_entry_can_not_be_used(tmp_path: Path) -> None:
    """The host gets the first list before the product is built; `my_notes` and `my.notes` compete for one name."""
    slack = office(tmp_path, "slack")["slack"]
    path = configuration(tmp_path, {"my_notes": {"comand": "x"}, "my.notes": slack})
    async with App.open(load(path)) as app:
        app.connect()
        assert await app.pool.wait_settled(30)
    loaded = load(path)
    async with App.open(loaded) as app, Client(app.front) as client:
        own = [tool.model_dump(by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools]
    first = UpstreamCatalog(loaded).offered()
    assert "servers.my_notes_" in first[3]["description"], "not the name that the other one has"
    assert "get_channel_history(" in first[3]["description"]
    assert first == own


def test_names_come_before_arguments_and_what_was_used_before_all() -> None:
    """A name spares a search; a tool that programs call is likely to be called again."""
    old = replace(tool("old"), description="DEPRECATED: use hard")
    found = catalog(
        a=(
            old,
            tool("hard", "x", "y"),
            tool("easy"),
            tool("often", "x", "y", "z"),
            tool("find", optional=("t", "u", "v")),
        ),
        b=(tool("simple", "x"), tool("sometimes", "x", "y")),
    )
    uses = {"a.often": 9.0, "b.sometimes": 1.0, "a.hard": 0.2}
    signatures = {
        "a": [
            "often(x: str, y: str, z: str)",
            "hard(x: str, y: str)",
            "easy()",
            "find(t?: str, u?: str, v?: str)",
            "old()",
        ],
        "b": ["sometimes(x: str, y: str)", "simple(x: str)"],
    }
    required = {
        "a": ["often(x: str, y: str, z: str)", "hard(x, y)", "easy()", "find(t?, u?)", "old()"],
        "b": ["sometimes(x: str, y: str)", "simple(x)"],
    }
    assert listed(found, 600, uses) == written(signatures)
    assert listed(found, 96, uses) == written(required)
    assert listed(found, 23, uses) == "servers.a (5 tools):\noften\nhard\nservers.b:\nsometimes\nsimple"
    assert listed(found, 18, uses) == "servers.a (5 tools)\nservers.b (2 tools)"


def test_a_result_that_is_a_dict_with_one_key_is_shown_beside_the_arguments() -> None:
    """Models took `read_text_file(path)` for a text; a lone `result` is unwrapped for programs."""
    content = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
    two = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    found = catalog(
        files=(
            replace(tool("read", "path"), output_schema=content),
            replace(tool("rooms", "city"), output_schema=ROOMS),
            replace(tool("pair", "x"), output_schema=two),
        )
    )
    assert listed(found, 30) == written({"files": ["read(path) -> {content}", "rooms(city)", "pair(x)"]})


def test_the_keys_of_inner_dicts_are_left_out_of_a_long_line() -> None:
    """They took the room of the arguments of other tools, and ended in the middle of a word."""
    inner = {"type": "object", "properties": {f"inner_field_{number}": {"type": "string"} for number in range(9)}}
    rooms = {"type": "object", "properties": {"first_room": inner, "last_room": {"type": "string"}}}
    text = listed(catalog(hotel=(replace(tool("rooms", "city"), output_schema=rooms),)))
    assert text.endswith("# keys: first_room?, last_room?")


def written(tools: dict[str, list[str]]) -> str:
    return "\n".join("\n".join((f"servers.{server}:", *lines)) for server, lines in tools.items())


def test_servers_that_are_off_are_not_named_and_those_not_listed_yet_are() -> None:
    states = {state.value: UpstreamListing(state.value, state) for state in UpstreamState}
    assert listed(Catalog.build(states.values())).splitlines() == [
        "servers.connecting",
        "servers.failed",
        "servers.needs_a_sign_in",
        "servers.ready",
        "servers.waiting",
    ]


def test_where_some_tools_of_a_server_can_not_be_called_the_count_says_so() -> None:
    """`list_dir` counts all of them, 3 here."""
    found = catalog(hotel=(tool("list_rooms"), tool("list_guests"), tool("plan_stay")))
    permissions = {"rules": [{"deny": "hotel/plan_stay"}]}
    assert listing(found, 13, permissions=permissions).tools == "servers.hotel (2 callable tools)"


@pytest.mark.parametrize(
    ("tools", "program"),
    [
        (
            (
                tool("book", "room", effect=Effect.WRITES),
                tool("about"),
                replace(tool("find_rooms", "city"), output_schema=ROOMS),
            ),
            'found = find_rooms(city="…")\n{"count": len(found), "first": found[:3]}',
        ),
        ((tool("about"), tool("guests", "room")), 'found = guests(room="…")\nstr(found)[:500]'),
        (
            (tool("book", effect=Effect.UNKNOWN), tool("get_room", "number", effect=Effect.UNKNOWN)),
            'found = get_room(number="…")\nstr(found)[:500]',
        ),
    ],
    ids=["a list", "unknown", "by its name alone"],
)
def test_the_examples_in_the_descriptions_use_a_tool_that_is_there(
    tools: tuple[ToolDefinition, ...], program: str
) -> None:
    """A blind model copied the example with `github`, a server that the user had not."""
    found = listing(catalog(hotel=tools))
    texts = {one["name"]: one["inputSchema"]["properties"] for one in definitions(Settings(), found)}
    name = program.split("(")[0].removeprefix("found = ")
    assert texts["execute_code"]["code"]["description"].endswith(f"from servers.hotel import {name}\n{program}")
    assert f"servers/hotel/{name}.py" in texts["read_tool"]["path"]["description"]
    assert "github" not in json.dumps(texts)


@pytest.mark.parametrize("tools", [(), (tool("book", effect=Effect.UNKNOWN),)])
def test_without_a_tool_for_an_example_no_server_is_named_that_is_not_there(tools: tuple[ToolDefinition, ...]) -> None:
    texts = json.dumps(definitions(Settings(), listing(catalog(hotel=tools))))
    assert "from servers.<server> import <tool>\\nfound = <tool>(" in texts
    assert "github" not in texts


def test_with_many_servers_the_names_are_listed_alone() -> None:
    many = {f"server_number_{number:02}": (tool("easy"),) for number in range(80)}
    text = listed(catalog(**many), 200)
    assert text.startswith("servers: server_number_00, server_number_01, ")
    assert text.endswith(" more")
    assert tokens_of(text) <= 200


def test_upstream_text_is_cleaned_and_secrets_are_masked() -> None:
    choices = {"type": "string", "enum": ["a\u202eb\n\x1b[31m", "hunter2-token"]}
    evil = ToolDefinition("pick", input_schema={"type": "object", "properties": {"which": choices}})
    text = listing(catalog(a=(evil,)), redact=lambda text: text.replace("hunter2-token", "[secret]")).tools
    assert "pick(" in text
    assert all(character == "\n" or character.isprintable() for character in text)
    assert "hunter2" not in text


@pytest.mark.parametrize("budget", [40, 150, 1_000])
def test_the_listing_of_real_servers_keeps_to_its_budget(real_catalog: Catalog, budget: int) -> None:  # noqa: F811
    """Real tokens, all servers at once and each alone; Claude Code cuts no description, at 4,096 characters."""
    settings = Settings.model_validate({"search": {"listed_tokens": budget}})
    fixed = carried(definitions(settings), INSTRUCTIONS)
    for found in (real_catalog, *(Catalog((server,)) for server in real_catalog.servers)):
        servers = listing(found, budget)
        tools = definitions(settings, servers)
        assert carried(tools, INSTRUCTIONS) - fixed <= budget * 1.1 + 50
        assert all(len(definition["description"]) <= 4_096 for definition in tools)
        assert budget < 1_000 or "\n" in servers.tools, "tools, too"


def carried(tools: list[dict[str, Any]], spoken: str) -> int:
    return tokens_of(json.dumps(tools, ensure_ascii=False)) + tokens_of(spoken)
