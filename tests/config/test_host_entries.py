"""The form that hosts have: their files are read as they are, and what only concerns them is left out and told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.config.conftest import Folder


def test_the_file_of_claude_desktop_is_read(folder: Folder) -> None:
    loaded = folder.load(
        """
        {
          "globalShortcut": "",
          "mcpServers": {
            "filesystem": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"],
              "env": {"LOG": "1"}
            },
            "My Notes": {"command": "notes", "disabled": true}
          }
        }
        """,
        name="claude_desktop_config.json",
    )
    servers = loaded.settings.servers
    assert {name: (server.command, server.enabled) for name, server in servers.items()} == {
        "filesystem": ("npx", True),
        "My-Notes": ("notes", False),
    }
    assert servers["filesystem"].env == {"LOG": "1"}
    assert loaded.warnings == (
        "claude_desktop_config.json:9: mcpServers.\"My Notes\": is called 'My-Notes' here",
        "claude_desktop_config.json: ignored, settings of other programs: 'globalShortcut'",
    )


def test_the_file_of_vs_code_is_read(folder: Folder) -> None:
    loaded = folder.load(
        """
        {
          // .vscode/mcp.json
          "inputs": [{"id": "token", "type": "promptString"}],
          "servers": {
            "local": {"type": "stdio", "command": "x", "gallery": true, "dev": {"watch": "*"}},
            "web": {"type": "http", "url": "https://a.example/mcp", "headers": {"X": "${env:NAME}"}},
            "old": {"type": "sse", "url": "https://b.example/sse"},
          }
        }
        """,
        name=".vscode/mcp.json",
        env={"NAME": "value"},
    )
    servers = loaded.settings.servers
    assert [(server.command, server.url, server.transport) for server in servers.values()] == [
        ("x", None, "http"),
        (None, "https://a.example/mcp", "http"),
        (None, "https://b.example/sse", "sse"),
    ]
    assert servers["web"].headers == {"X": "value"}
    assert loaded.warnings == (
        ".vscode/mcp.json:5: servers.local: ignored, host-specific settings: 'gallery', 'dev'",
        ".vscode/mcp.json: ignored, settings of other programs: 'inputs'",
    )


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


@pytest.mark.parametrize(
    ("entry", "url", "transport"),
    [
        ('{"type": "streamable-http", "url": "http://h/"}', "http://h/", "http"),
        ('{"type": "streamableHttp", "url": "http://h/"}', "http://h/", "http"),
        ('{"transport": "streamable_http", "url": "http://h/"}', "http://h/", "http"),
        ('{"transportType": "sse", "url": "http://h/"}', "http://h/", "sse"),
        ('{"serverUrl": "http://h/"}', "http://h/", "http"),
        ('{"httpUrl": "http://h/"}', "http://h/", "http"),
    ],
)
def test_each_hosts_words_for_an_address_are_understood(folder: Folder, entry: str, url: str, transport: str) -> None:
    server = folder.load(f'{{"mcpServers": {{"s": {entry}}}}}', name="mcp.json").settings.servers["s"]
    assert (server.url, server.transport) == (url, transport)


def test_a_timeout_that_can_only_be_milliseconds_is_taken_as_such(folder: Folder) -> None:
    loaded = folder.load('{"mcpServers": {"s": {"command": "x", "timeout": 600000}}}', name="mcp.json")
    assert loaded.settings.servers["s"].timeout == 600
    assert loaded.warnings == ("mcp.json:1: mcpServers.s.timeout: taken as milliseconds",)


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
    """Else `make demo` in a folder of that name has no git server. A package that Python runs is another matter."""
    clone, package = tmp_path / "codemode-server", tmp_path / "src" / "codemode_server"
    clone.mkdir()
    package.mkdir(parents=True)
    (package / "__main__.py").touch()
    entries = {
        "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", str(clone)]},
        "package": {"command": "python", "args": ["-u", str(package)]},
        "launched": {"command": "uvx", "args": [str(clone)]},
        "installed": {"command": "uvx", "args": ["--from", str(clone), "codemode-server"]},
    }
    loaded = folder.load(json.dumps({"mcpServers": entries}), name="mcp.json")
    assert list(loaded.settings.servers) == ["git"]


def test_a_typing_error_is_one_in_a_hosts_file_too(folder: Folder) -> None:
    assert folder.refusal(
        """
        {"mcpServers": {
          "a": {"comand": "x"},
          "b": {"command": "x", "type": "carrier-pigeon"},
          "c": {"command": "x", "disabled": "maybe"}
        }, "limts": {}}
        """,
        name="mcp.json",
    ) == [
        "mcp.json:2: mcpServers.a: give either `command` (a program to start) or `url` (a server that runs already)",
        "mcp.json:2: mcpServers.a.comand: unknown key; did you mean 'command'?",
        "mcp.json:3: mcpServers.b.type: must be one of 'stdio', 'http', 'sse'",
        "mcp.json:4: mcpServers.c.disabled: must be true or false",
        "mcp.json:5: limts: unknown key; did you mean 'limits'?",
    ]


def test_two_servers_of_one_name_are_refused(folder: Folder) -> None:
    assert folder.refusal(
        """
        servers:
          a-b: {command: x}
        mcpServers:
          a b: {command: y}
        """
    ) == ["upstream.yaml:4: mcpServers.\"a b\": there are two servers 'a-b'; rename one"]
