"""What a host's file switches off is off here too: what could not be called before can't be called after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from codemode_server.config import LoadedSettings
    from tests.config.conftest import Folder

TOOLS = ("read", "read_all", "write", "delete[1]", "delete file", "x*")


def offered(loaded: LoadedSettings, server: str = "s") -> list[str]:
    """The tools of a server that has `TOOLS`, as far as they are left."""
    return [*filter(loaded.settings.servers[server].tools.selects, TOOLS)]


def asked(loaded: LoadedSettings) -> list[str | None]:
    return [rule.ask for rule in loaded.settings.permissions.rules]


@pytest.mark.parametrize(
    ("restriction", "left"),
    [
        ({}, list(TOOLS)),
        ({"disabledTools": ["read", "delete[1]", "delete file"]}, ["read_all", "write", "x*"]),
        ({"disabled_tools": ["write"]}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"excludeTools": ["write"], "includeTools": ["write", "read"]}, ["read"]),
        ({"includeTools": ["read(path)"]}, ["read"]),
        ({"enabledTools": ["read"]}, ["read"]),
        ({"enabled_tools": ["x*", "read"]}, ["read", "x*"]),
        ({"enabledTools": []}, []),
        ({"tools": ["*"]}, list(TOOLS)),
        ({"tools": ["read", "delete[1]"]}, ["read", "delete[1]"]),
        ({"tools": []}, []),
        ({"tools": {"include": ["read*"], "exclude": ["read_*"]}}, ["read"]),
        ({"tools": {"write": False, "read": True}}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"tools": {"write": {"enabled": False}}}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        (
            {"tools": [{"name": "write", "permission_policy": "always_deny"}, {"name": "read"}]},
            ["read", "read_all", "delete[1]", "delete file", "x*"],
        ),
        ({"enabledTools": ["read", "write"], "tools": ["write", "x*"]}, ["write"]),
        ({"alwaysAllow": ["write"], "autoApprove": ["write"], "trust": True, "disabledTools": TOOLS[1:]}, ["read"]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_tool_that_the_host_s_entry_switches_off_is_off(
    folder: Folder, restriction: dict[str, Any], left: list[str]
) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", **restriction}}})
    loaded = folder.load(text, name="mcp.json")
    assert offered(loaded) == left
    assert loaded.settings.permissions.default == "allow"
    assert loaded.settings.permissions.rules == ()


@pytest.mark.parametrize(
    "restriction",
    [
        {"tools": "read"},
        {"tools": {"read": "no"}},
        {"tools": [{"permission_policy": "always_deny"}]},
        {"tools": [{"name": "write", "permission_policy": "sometimes"}]},
        {"disabledTools": "write"},
        {"disabledTools": [{"name": "write"}]},
        {"includeTools": {"read": True}},
        {"disabled": "true"},
    ],
    ids=json.dumps,
)
def test_a_restriction_that_is_not_understood_turns_its_server_off(folder: Folder, restriction: dict[str, Any]) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", **restriction}, "other": {"command": "y"}}})
    loaded = folder.load(text, name="mcp.json")
    assert list(loaded.settings.servers) == ["other"]
    assert list(loaded.invalid_servers) == ["s"]


def test_a_tool_that_the_host_asks_about_is_asked_about(folder: Folder) -> None:
    entry = {"command": "x", "tools": [{"name": "write", "permission_policy": "always_ask"}]}
    assert asked(folder.load(json.dumps({"mcpServers": {"s": entry}}), name="mcp.json")) == ["s/write"]


def test_the_person_s_own_rules_come_before_what_the_host_asks_about(folder: Folder) -> None:
    loaded = folder.load(
        """
        mcpServers: {s: {command: x, tools: [{name: write, permission_policy: always_ask}]}}
        permissions: {default: deny, rules: [{deny: "s/write"}]}
        """
    )
    assert [(rule.answer, rule.pattern) for rule in loaded.settings.permissions.rules] == [
        ("deny", "s/write"),
        ("ask", "s/write"),
    ]
    assert loaded.settings.permissions.default == "deny"


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ({"my-server_write": False}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"my-server*": False}, []),
        ({"my*write": False}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"*": False, "my-server_read": True}, []),
        ({"my-server_delete_*": False}, ["read", "read_all", "write", "x*"]),
        ({"*_write": False}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"m*r_write": False}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"m*_write": "false"}, ["read", "read_all", "delete[1]", "delete file", "x*"]),
        ({"other_*": False, "bash": False, "write": True}, list(TOOLS)),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_opencode_switches_off_by_pattern_is_off(
    folder: Folder, patterns: dict[str, bool], left: list[str]
) -> None:
    text = json.dumps({"mcp": {"my-server": {"type": "local", "command": ["x"]}}, "tools": patterns})
    assert offered(folder.load(text, name="opencode.json"), "my-server") == left


@pytest.mark.parametrize(
    ("permission", "denied", "asked"),
    [
        ("allow", [], []),
        ("deny", list(TOOLS), []),
        ("ask", [], ["my-server/*"]),
        ({"my-server_write": {"*": "deny"}}, ["write"], []),
        ({"my-server_write": {"a": "allow", "*": "ask"}}, [], ["my-server/write"]),
        ({"my-server_write": "never"}, ["write"], []),
        ({"bash": {"*": "deny"}}, [], []),
    ],
    ids=json.dumps,
)
def test_what_opencode_s_permission_does_not_allow_is_denied_or_asked_about(
    folder: Folder, permission: object, denied: list[str], asked: list[str]
) -> None:
    text = json.dumps({"mcp": {"my-server": {"type": "local", "command": ["x"]}}, "permission": permission})
    loaded = folder.load(text, name="opencode.json")
    assert offered(loaded, "my-server") == [name for name in TOOLS if name not in denied]
    assert [rule.ask for rule in loaded.settings.permissions.rules] == asked


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({}, list(TOOLS)),
        ({"excludeTools": ["write"]}, [name for name in TOOLS if name != "write"]),
        ({"tools": {"exclude": ["write(x)"]}}, [name for name in TOOLS if name != "write"]),
        ({"amp.tools.disable": ["wri*", "builtin:read"]}, [name for name in TOOLS if name != "write"]),
        ({"excludeMCPServers": ["my-server"]}, None),
        ({"allowMCPServers": ["other"]}, None),
        ({"mcp": {"other": {"type": "local", "command": ["y"]}}, "tools": {"my-server_write": False}},
         [name for name in TOOLS if name != "write"]),
    ],
    ids=json.dumps,
)  # fmt: skip
def test_what_a_host_switches_off_for_all_its_servers_is_off(
    folder: Folder, settings: dict[str, object], left: list[str] | None
) -> None:
    loaded = folder.load(json.dumps({"mcpServers": {"my-server": {"command": "x"}}, **settings}), name="settings.json")
    assert loaded.settings.servers["my-server"].enabled is (left is not None)
    assert left is None or offered(loaded, "my-server") == left


@pytest.mark.parametrize(
    ("settings", "on"),
    [({}, ["a", "b", "c"]), ({"excluded": ["B"]}, ["a", "c"]), ({"allowed": ["a", "b"], "excluded": ["b"]}, ["a"])],
)
def test_servers_that_gemini_s_settings_exclude_are_off(
    folder: Folder, settings: dict[str, list[str]], on: list[str]
) -> None:
    servers = {name: {"command": "x"} for name in "abc"}
    loaded = folder.load(json.dumps({"mcpServers": servers, "mcp": settings}), name="settings.json")
    assert [name for name, server in loaded.settings.servers.items() if server.enabled] == on


def test_codex_s_approval_modes_ask(folder: Folder) -> None:
    loaded = folder.load(
        """
        [mcp_servers.s]
        command = "x"
        default_tools_approval_mode = "auto"
        [mcp_servers.s.tools.write]
        approval_mode = "prompt"
        [mcp_servers.t]
        command = "y"
        default_tools_approval_mode = "prompt"
        """,
        name="config.toml",
    )
    assert asked(loaded) == ["s/write", "t/*"]
