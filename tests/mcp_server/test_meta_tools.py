"""The four tools as a host lists them, whose every word costs every user; what they answer to wrong
arguments; and that what they give fits the schema they declare. Through the real client, in memory.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.config.settings import Settings
from codemode_server.mcp_server.instructions import INSTRUCTIONS
from codemode_server.mcp_server.listing import Listing
from codemode_server.mcp_server.tools.registry import definitions
from tests.behaviour.product import Host, configuration, in_memory, office, over_stdio
from tests.vocabulary import tokens_of

READS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
RUNS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
ID = {"type": "string", "minLength": 1, "maxLength": 100}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "list_dir": {"path": {"type": "string", "default": "/"}},
    "read_tool": {"path": {"type": "string"}},
    "search_tools": {
        "query": {"type": "string", "default": ""},
        "detail_level": {
            "type": "string",
            "enum": ["name_only", "with_description", "full", "scaffold"],
            "default": "with_description",
        },
        "server": {"type": "string"},
        "effect": {"type": "string", "enum": ["reads", "writes", "destroys"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
    },
    "execute_code": {
        "code": {"type": "string", "minLength": 1},
        "description": {"type": "string"},
        "resume": ID,
        "dry_run": {"type": "boolean"},
        "apply": ID,
        "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 60.0},
    },
}
REQUIRED = {"read_tool": ["path"]}
STRUCTURED = definitions(Settings.model_validate({"results": {"structured_content": True}}))


@asynccontextmanager
async def product(folder: Path, **sections: Any) -> AsyncIterator[Host]:
    async with in_memory(configuration(folder, office(folder, "github"), **sections)) as host:
        yield host


async def test_a_host_lists_exactly_these_four_in_this_order(tmp_path: Path) -> None:
    """With these arguments, so that a change of one is seen."""
    async with App.open(load(configuration(tmp_path, {}))) as app, Client(app.front) as client:
        listed = (await client.list_tools()).tools
        assert client.instructions == INSTRUCTIONS
    assert [tool.name for tool in listed] == list(ARGUMENTS)
    for tool in listed:
        properties = tool.input_schema["properties"]
        without_texts = {
            name: {key: value for key, value in schema.items() if key != "description"}
            for name, schema in properties.items()
        }
        assert without_texts == ARGUMENTS[tool.name]
        assert tool.input_schema.get("required", []) == REQUIRED.get(tool.name, [])
        assert tool.input_schema["additionalProperties"] is False
        assert tool.annotations is not None
        hints = tool.annotations.model_dump(by_alias=True, exclude_none=True)
        assert hints == (RUNS if tool.name == "execute_code" else READS)
        assert (tool.meta or {})["anthropic/alwaysLoad"] is True


async def test_the_rules_for_programs_are_told_from_the_running_configuration(tmp_path: Path) -> None:
    """A model that knows them breaks none; `timeout` beyond its maximum is lowered to it."""
    limits = {"calls": 77, "memory_mb": 300, "wall_seconds": 12, "upstream_seconds": 345}
    async with in_memory(configuration(tmp_path, {}, limits=limits)) as host:
        tool = (await host.client.list_tools()).tools[3]
        properties = tool.input_schema["properties"]
        lowered = await host.run("1", timeout=12.5)
        allowed = await host.run("1", timeout=12)
    assert (
        "Standard library only; no network, no host files. Each program starts fresh in /workspace: only files there "
        "and results stay. At most 77 calls, 300 MB, 12 s of run time plus 345 s waiting for servers."
    ) in properties["code"]["description"]
    assert properties["timeout"]["maximum"] == 12
    assert lowered.value == allowed.value == 1
    note = "[note: timeout is at most 12 s, which held here; the user can raise limits.wall_seconds]"
    assert (note in lowered.text, note in allowed.text) == (True, False)


async def test_by_default_no_tool_has_an_output_schema_and_no_result_structured_content(tmp_path: Path) -> None:
    """Claude Code, Codex and VS Code show their model only the structured part, others both, and Codex drops images."""
    path = configuration(tmp_path, office(tmp_path, "github"), results={})
    async with over_stdio(path) as host:
        listed = (await host.client.list_tools()).tools
        answers = [await host.call(tool, **arguments) for tool, arguments in FITTING]
    assert [tool.name for tool in listed if tool.output_schema is not None] == []
    assert [answer.text for answer in answers if answer.result.structured_content is not None] == []
    assert all(answer.text for answer in answers)


def test_all_that_a_host_carries_of_us_is_under_1200_tokens() -> None:
    """The part that is the same for all users; `search.listed_tokens` bounds the rest (`test_listing`)."""
    assert tokens_of(INSTRUCTIONS) + tokens_of(json.dumps(definitions(Settings()))) < 1_200


def test_the_packages_of_programs_are_named_within_a_budget() -> None:
    def rules(*packages: str) -> str:
        described = definitions(Settings.model_validate({"sandbox": {"packages": packages}}))[-1]
        text: str = described["inputSchema"]["properties"]["code"]["description"]
        return text

    assert "\nStandard library only; no network" in rules()
    named = "Standard library and the packages openpyxl, python-dateutil, ruamel.yaml only; no network"
    assert named in rules("openpyxl", "python-dateutil >= 2.9", "ruamel.yaml[jinja2]~=0.18")
    many = rules(*(f"a-package-with-a-name-{number}" for number in range(50)))
    assert "a-package-with-a-name-9" in many
    assert " more only; no network" in many
    assert tokens_of(many) - tokens_of(rules()) < 200


@pytest.mark.parametrize(
    ("permissions", "reads_only", "may_destroy"),
    [
        ({}, False, True),
        ({"preset": "read-only"}, True, False),
        ({"preset": "careful"}, False, True),
        ({"default": "deny", "rules": [{"allow": "*", "effect": "read"}]}, True, False),
        ({"rules": [{"deny": "*", "effect": "write"}]}, True, False),
        ({"rules": [{"deny": "*/*", "effect": "destructive"}]}, False, False),
        ({"default": "deny", "rules": [{"ask": "notes/*", "effect": "write"}]}, False, True),
        ({"default": "deny", "rules": [{"allow": "notes/add", "effect": "write"}]}, False, False),
        ({"preset": "read-only", "rules": [{"ask": "github/create_issue"}]}, False, True),
        ({"preset": "read-only", "rules": [{"allow": "docs/resources/x"}, {"ask": "*/read_resource"}]}, True, False),
        ({"rules": [{"deny": "github", "effect": "destructive"}]}, False, True),
        ({"rules": [{"deny": "*", "effect": "write", "when": "args.a == 1"}]}, False, True),
        ({"rules": [{"deny": "*", "effect": "write", "principals": ["ann"]}]}, False, True),
    ],
)
def test_the_hints_of_programs_follow_the_permissions(
    permissions: dict[str, Any], reads_only: bool, may_destroy: bool
) -> None:
    hints = definitions(Settings.model_validate({"permissions": permissions}))[-1]["annotations"]
    assert hints == RUNS | {"readOnlyHint": reads_only, "destructiveHint": may_destroy}


def test_every_description_says_something_and_fits_into_two_kilobytes() -> None:
    """Claude Code cuts descriptions and instructions at 2 KB."""
    texts = [INSTRUCTIONS, *(tool["description"] for tool in definitions(Settings()))]
    assert all(20 < len(text.encode()) < 2_048 for text in texts)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("read_tool", {}, "read_tool: 'path' is required. It takes path."),
    ("list_dir", {"pth": "/"}, "list_dir: there is no argument 'pth' (did you mean 'path'?). It takes path?."),
    ("list_dir", {"path": 1}, "list_dir: 'path': input should be a valid string. It takes path?."),
    (
        "search_tools",
        {"query": "x", "limit": 1_000},
        "search_tools: 'limit': input should be less than or equal to 100. "
        "It takes query?, detail_level?, server?, effect?, limit?.",
    ),
    (
        "search_tools",
        {"query": "x", "detail_level": "everything"},
        "search_tools: 'detail_level': input should be 'name_only', 'with_description', 'full' or 'scaffold'. "
        "It takes query?, detail_level?, server?, effect?, limit?.",
    ),
    (
        "search_tools",
        {"query": "x", "effect": "breaks"},
        "search_tools: 'effect': input should be 'reads', 'writes' or 'destroys'. "
        "It takes query?, detail_level?, server?, effect?, limit?.",
    ),
    (
        "execute_code",
        {"code": "", "source": "1"},
        "execute_code: there is no argument 'source'. "
        "It takes code?, description?, resume?, dry_run?, apply?, timeout?.",
    ),
    (
        "execute_code",
        {"code": "", "resume": "xnope", "apply": None, "timeout": 0, "description": ""},
        "there is no execution 'xnope' (any more: state.journal_hours)",
    ),
    (
        "execute_cod",
        {"code": "1"},
        "There is no tool 'execute_cod'; did you mean execute_code?",
    ),
    (
        "create_issue",
        {},
        "There is no tool 'create_issue'; call it from a program in execute_code: "
        "from servers.github import create_issue",
    ),
]


async def test_a_wrong_argument_is_answered_with_what_is_right(tmp_path: Path) -> None:
    async with product(tmp_path) as host:
        for tool, arguments, message in WRONG:
            answer = await host.call(tool, **arguments)
            assert answer.result.is_error, tool
            assert answer.text == message


FITTING: list[tuple[str, dict[str, Any]]] = [
    ("list_dir", {}),
    ("list_dir", {"path": "/servers/github"}),
    ("list_dir", {"path": "/workspace"}),
    ("read_tool", {"path": "servers/github/create_issue.py"}),
    ("search_tools", {"query": "issue"}),
    ("search_tools", {"query": "issue", "server": None, "effect": None}),
    ("search_tools", {"query": "", "effect": "reads", "server": "github"}),
    ("search_tools", {"query": "", "effect": "read", "server": "", "detail_level": "", "limit": 0}),
    ("search_tools", {"query": "", "detail_level": "full", "limit": 1}),
    ("search_tools", {"query": "nothing at all like it", "detail_level": "name_only"}),
    ("execute_code", {"code": "{'a': [1, None, 2.5]}", "resume": "", "apply": "", "timeout": 0, "dry_run": False}),
    ("execute_code", {"code": "```python\n1\n```", "description": "long " * 1_000}),
    ("execute_code", {"code": "object()"}),
    ("execute_code", {"code": "x = 1"}),
    ("execute_code", {"code": "import sys; print('x'); print('y', file=sys.stderr)"}),
    ("execute_code", {"code": "def"}),
    ("execute_code", {"code": "1 / 0"}),
    ("execute_code", {"code": "from servers.github import boom\nboom()"}),
    ("execute_code", {"code": "from servers.github import boom\nfor _ in range(3): boom()"}),
    ("execute_code", {"code": "while True: pass", "timeout": 0.3}),
    ("execute_code", {"code": "'x' * 10_000_000"}),
]


async def test_what_each_gives_fits_the_schema_it_declares_whether_it_succeeds_or_fails(tmp_path: Path) -> None:
    schemas = {tool["name"]: tool["outputSchema"] for tool in STRUCTURED}
    statuses = set()
    async with product(tmp_path) as host:
        for tool, arguments in FITTING:
            answer = await host.call(tool, **arguments)
            schema: dict[str, Any] = schemas[tool] or {}
            jsonschema.validate(answer.content, schema)
            assert set(answer.content) <= set(schema["properties"]), "what is given is declared"
            assert answer.result.is_error == (answer.content.get("status", "succeeded") != "succeeded")
            statuses.add(answer.content.get("status"))
    assert statuses == {None, "succeeded", "failed", "limit_exceeded"}


def test_before_any_server_has_connected_the_description_says_that_search_finds_its_tools() -> None:
    settings = Settings()
    assert "finds the tools of these servers:" in definitions(settings, Listing(tools="servers.git"))[3]["description"]
    shown = definitions(settings, Listing(tools="servers.git (2 tools):\nlog()"))[3]["description"]
    assert "search_tools finds others, and arguments not shown:" in shown, "control"
