"""Servers in the form of a host: each file is imported as its host reads it, or refused with a reason; `mcpServers` may
stand in our file too.

Formats are recognised by content. What could not be called before can't be called after.
"""

from __future__ import annotations

import json
import textwrap
import tracemalloc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from codemode_server.config.host_reading import read_text
from codemode_server.config.import_plan import SecretNames, plan
from codemode_server.config.saving import ConfigText
from codemode_server.domain.errors import SettingsError
from tests.tables import rows, tables

if TYPE_CHECKING:
    from pathlib import Path

    from codemode_server.config import LoadedSettings
    from tests.config.conftest import Folder
TABLES = tables(__file__)


def imported(
    folder: Folder, text: str, name: str = "mcp.json", env: Mapping[str, str] | None = None
) -> tuple[LoadedSettings, list[str]]:
    """The configuration that an import of this text makes, and what the person is told."""
    environ = env or {}
    found = read_text(textwrap.dedent(text).strip().encode(), name, environ, folder.path / name)
    made = plan(found.servers, {}, SecretNames({}, environ), environ, folder.path)
    ours = ConfigText("")
    ours.add_servers({it.name: it.entry for it in made.additions})
    return folder.load(ours.text, env={**environ, **made.secrets}), [*found.skipped, *made.skipped]


NOTES = {"command": "npx", "args": ("-y", "notes"), "env": {"LEVEL": "1"}}
WEB = {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer secret-of-the-web"}}
OLD = {"url": "https://b.example/sse", "transport": "sse"}
OFF = {"command": "x", "enabled": False}

FILES = TABLES["files"]


@pytest.mark.parametrize("host", FILES)
def test_a_file_of_another_host_is_read_by_its_content(folder: Folder, host: str) -> None:
    loaded, _ = imported(folder, FILES[host], "theirs", {"TOKEN": "secret-of-the-web"})
    servers = loaded.settings.servers.items()
    read = {name: it.model_dump(exclude_defaults=True, exclude={"cwd", "timeout"}) for name, it in servers}
    assert read == {"notes": NOTES, "web": WEB, "old": OLD, "off": OFF}
    assert loaded.settings.servers["notes"].timeout == 60
    assert loaded.invalid_servers == {}
    assert loaded.settings.permissions.rules == ()
    assert "secret-of-the-web" in loaded.secrets


LONG = ".".join("a" * 10_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"editor.fontSize": 12}', "holds no servers; they are looked for under servers, mcpServers, mcp_servers, "),
        ('[mcp_servers.a]\ncommand = "x\n', "this is not valid TOML"),
        ('[mcp_servers.a]\nargs = [\n  "x",\n', "this is not valid TOML"),
        ("[mcp_servers]\na = " + "[" * 5_000 + "\n", "nested too deeply"),
        (f"[mcp_servers.a]\n{LONG} = 1\n", "nested too deeply"),
        (f"[mcp_servers.a]\nb = [1.5, {{{LONG} = 1}}]\n", "nested too deeply"),
    ],
    ids=["settings", "toml", "unfinished toml", "deep lists", "key", "value"],
)
def test_what_can_not_be_read_is_refused_with_a_reason_and_in_little_memory(
    folder: Folder, text: str, reason: str
) -> None:
    """`tomllib` takes a gigabyte for a key of thousands of parts."""
    tracemalloc.start()
    try:
        with pytest.raises(SettingsError, match=reason):
            imported(folder, text, "theirs")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20


@pytest.mark.parametrize(("entry", "reason"), rows(TABLES["host_only"]))
def test_what_only_the_host_could_do_turns_off_that_server(folder: Folder, entry: str, reason: str) -> None:
    loaded = folder.load(f'{{"mcpServers": {{"s": {{{entry}}}, "other": {{"command": "y"}}}}}}', name="mcp.json")
    assert list(loaded.settings.servers) == ["other"]
    assert reason in loaded.invalid_servers["s"][0]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "mcp.json",  # Claude Code
            """{"mcpServers": {"s": {"url": "https://h/", "oauth": {"clientId": "a", "callbackPort": 8080,
            "scopes": "x y"}}}}""",
            {"client_id": "a", "redirect_uri": "http://localhost:8080/callback", "scopes": ("x", "y")},
        ),
        (
            "mcp.json",  # Cursor
            """{"mcpServers": {"s": {"url": "https://h/",
            "auth": {"CLIENT_ID": "a", "CLIENT_SECRET": "${env:KEY}", "scopes": ["x"]}}}}""",
            {"client_id": "a", "client_secret": "value-of-key", "scopes": ("x",)},
        ),
        ("mcp.json", '{"mcpServers": {"s": {"url": "https://h/", "oauth": {"enabled": true}}}}', None),
    ],
)
def test_what_a_host_says_about_a_sign_in_is_used(
    folder: Folder, name: str, text: str, expected: dict[str, object] | None
) -> None:
    loaded, told = imported(folder, text, name, {"KEY": "value-of-key"})
    oauth = loaded.settings.servers["s"].oauth
    assert (oauth and oauth.model_dump(exclude_unset=True)) == expected
    assert told == []
    assert ("value-of-key" in loaded.secrets) == ("KEY" in text)


def test_mcp_servers_within_upstream_yaml_stand_beside_ours(folder: Folder) -> None:
    loaded = folder.load(
        """
        servers:
          ours: {command: x}
        mcpServers:
          {"theirs": {"command": "y", "alwaysAllow": ["a"], "autoApprove": [], "icon": "z"}}
        limits: {calls: 3}
        """
    )
    assert list(loaded.settings.servers) == ["ours", "theirs"]
    assert loaded.settings.limits.calls == 3
    assert loaded.warnings == (
        "upstream.yaml:4: mcpServers.theirs: ignored, host-specific settings: 'alwaysAllow', 'autoApprove', 'icon'",
    )


def test_this_server_in_a_hosts_file_is_left_out_or_it_would_start_itself_without_end(folder: Folder) -> None:
    loaded = folder.load(
        """
        {"mcpServers": {
          "a": {"command": "uvx", "args": ["codemode-server", "serve"]},
          "b": {"command": "/home/me/.venv/bin/codemode-server"},
          "c": {"command": "python", "args": ["-m", "codemode_server"]},
          "d": {"command": "x"}
        }}
        """,
        name="mcp.json",
    )
    assert list(loaded.settings.servers) == ["d"]
    assert loaded.warnings[0] == "mcp.json:2: mcpServers.a: ignored: it starts codemode-server itself"


def test_a_server_that_works_on_a_clone_of_this_one_is_not_this_one(folder: Folder, tmp_path: Path) -> None:
    """Else `make demo` in a folder of that name has no git server."""
    clone = tmp_path / "codemode-server"
    clone.mkdir()
    entries = {
        "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", str(clone)]},
        "launched": {"command": "uvx", "args": [str(clone)]},
        "installed": {"command": "uvx", "args": ["--from", str(clone), "codemode-server"]},
    }
    loaded = folder.load(json.dumps({"mcpServers": entries}), name="mcp.json")
    assert list(loaded.settings.servers) == ["git"]


def test_two_servers_of_one_name_are_refused(folder: Folder) -> None:
    assert folder.refusal(
        """
        servers:
          a-b: {command: x}
        mcpServers:
          a b: {command: y}
        """
    ) == ["upstream.yaml:4: mcpServers.\"a b\": there are two servers 'a-b'; rename one"]


def test_a_server_that_claude_code_switches_off_in_a_project_is_off_under_its_name_there(folder: Folder) -> None:
    servers = {"My Server": {"command": "x"}, "other": {"command": "y"}}
    project = {"mcpServers": servers, "disabledMcpServers": ["My Server"]}
    loaded, _ = imported(folder, json.dumps({"projects": {"/p": project}}), ".claude.json")
    assert {name: it.enabled for name, it in loaded.settings.servers.items()} == {"My-Server": False, "other": True}


@pytest.mark.parametrize(("second", "told"), [("pay", ["pay: there are two servers 'pay'; rename one"]), ("b", [])])
def test_of_two_servers_with_one_name_in_a_list_the_first_is_kept(folder: Folder, second: str, told: list[str]) -> None:
    """Continue has lists. The last one won, without the restriction of the first."""
    text = f"""
        mcpServers:
          - {{name: pay, command: x, enabledTools: [read]}}
          - {{name: {second}, command: y}}
        """
    loaded, shown = imported(folder, text, "config.yaml")
    assert list(loaded.settings.servers) == list(dict.fromkeys(["pay", second]))
    assert (loaded.settings.servers["pay"].command, offered(loaded, "pay")) == ("x", ["read"])
    assert shown == told


TOOLS = ("read", "read_all", "write", "delete[1]", "delete file", "x*")


def offered(loaded: LoadedSettings, server: str = "s") -> list[str]:
    """The tools of a server that has `TOOLS`, as far as they are left."""
    return [*filter(loaded.settings.servers[server].tools.selects, TOOLS)]


@pytest.mark.parametrize(("restriction", "left"), rows(TABLES["restrictions"]))
def test_a_tool_that_the_host_s_entry_switches_off_is_off(
    folder: Folder, restriction: dict[str, Any], left: list[str]
) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", **restriction}}})
    loaded = folder.load(text, name="mcp.json")
    assert offered(loaded) == left
    assert loaded.settings.permissions.default == "allow"
    assert loaded.settings.permissions.rules == ()


@pytest.mark.parametrize("restriction", rows(TABLES["not_understood"]))
def test_a_restriction_that_is_not_understood_turns_its_server_off(folder: Folder, restriction: dict[str, Any]) -> None:
    text = json.dumps({"mcpServers": {"s": {"command": "x", **restriction}, "other": {"command": "y"}}})
    loaded = folder.load(text, name="mcp.json")
    assert {name: it.enabled for name, it in loaded.settings.servers.items()} == {"s": False, "other": True}
    assert "is not understood, so the server is disabled" in loaded.warnings[0]


@pytest.mark.parametrize(("settings", "is_enabled"), rows(TABLES["opencode"]))
def test_a_server_that_a_pattern_of_opencode_may_restrict_is_off(
    folder: Folder, settings: dict[str, Any], *, is_enabled: bool
) -> None:
    text = json.dumps({"mcp": {"my-server": {"type": "local", "command": ["x"]}}, **settings})
    loaded, told = imported(folder, text, "opencode.json")
    assert loaded.settings.servers["my-server"].enabled is is_enabled
    assert is_enabled is (told == [])


@pytest.mark.parametrize(("settings", "left"), rows(TABLES["for_all"]))
def test_what_a_host_switches_off_for_all_its_servers_is_off(
    folder: Folder, settings: dict[str, object], left: list[str] | None
) -> None:
    text = json.dumps({"mcpServers": {"my-server": {"command": "x"}}, **settings})
    for loaded in (imported(folder, text)[0], folder.load(text, name="mcp.json")):  # which `--config` reads as it is
        assert loaded.settings.servers["my-server"].enabled is (left is not None)
        assert left is None or offered(loaded, "my-server") == left
