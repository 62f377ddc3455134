"""`connect` and `disconnect` with real hosts: Claude Code, Codex, Gemini CLI, opencode and Copilot CLI, from npm.

Each has a home of its own with a file that its own command wrote. After `connect` its own list shows the product, and
the file gets its bytes back.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from codemode_server.config.hosts import HOSTS, System
from tests.hosts.kit import NodeTools, configured, installed_command
from tests.hosts.model_hosts import ModelHost, Project

pytestmark = [pytest.mark.slow, pytest.mark.network]


@dataclass(frozen=True)
class Connection:
    """What one host is called here, and how its own commands name servers."""

    id: str
    environment: Mapping[str, str]
    add: tuple[str, ...]
    """Its command that adds a server `other`; none if it asks a person."""
    states: tuple[str, ...] = ("connected",)
    """What its list says of a server that works, or that it has not started."""


OPENCODE = '{\n  // mine\n  "$schema": "https://opencode.ai/config.json",\n  "autoupdate": false,\n}\n'
"""Without the address of its schema, opencode would write that into the file."""
OTHER = ("uvx", "mcp-server-time")
CONNECTIONS = {
    "claude-code": Connection(
        "claude-code",
        {
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
        },
        ("mcp", "add", "-s", "user", "other", "--", *OTHER),
    ),
    "codex": Connection("codex", {}, ("mcp", "add", "other", "--", *OTHER), ("enabled",)),
    "gemini-cli": Connection(
        "gemini",
        {"GEMINI_API_KEY": "not-a-key", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        ("mcp", "add", "-s", "user", "other", *OTHER),
    ),
    "opencode": Connection("opencode", {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}, ()),
    "copilot": Connection("copilot", {}, ("mcp", "add", "other", "--", *OTHER), ("(local)",)),
}


@dataclass(frozen=True)
class Connected:
    """One host before, between and after both commands."""

    host: Connection
    before: bytes
    between: bytes
    after: bytes
    listed_between: str
    listed_after: str
    said: str


@pytest.fixture(scope="module")
def connected(listing_host: tuple[ModelHost, NodeTools], tmp_path_factory: pytest.TempPathFactory) -> Connected:
    host, tools = listing_host
    connection = CONNECTIONS[host.name]
    folder = tmp_path_factory.mktemp(host.name)
    project = Project(folder, "", configured(folder, "github", server={"idle_minutes": 0}), folder)
    project.home.mkdir()
    host = replace(host, configure=lambda _project: connection.environment)
    if connection.add:
        host.run(project, tools, *connection.add)
    else:
        project.write(".config/opencode/opencode.json", OPENCODE)
    file = HOSTS[connection.id].place(System("linux", project.home, {})).path
    before = file.read_bytes()
    said = _product(project, "connect", connection.id, "--yes", "--config", str(project.config))
    between = file.read_bytes()
    listed = host.run(project, tools, "mcp", "list")
    said += _product(project, "disconnect", connection.id, "--yes")
    after = file.read_bytes()
    return Connected(connection, before, between, after, listed, host.run(project, tools, "mcp", "list"), said)


def _product(project: Project, *arguments: str) -> str:
    done = subprocess.run(
        [str(installed_command(project.folder)), *arguments],
        cwd=project.folder,
        env={"HOME": str(project.home), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _of(name: str, listed: str) -> list[str]:
    return [line.lower() for line in listed.splitlines() if name in line]


def test_the_host_lists_the_product_as_connected(connected: Connected) -> None:
    """Codex and Copilot CLI do not start a server for the list."""
    lines = _of("codemode", connected.listed_between)
    assert any(state in line for state in connected.host.states for line in lines), connected.listed_between
    assert not any("failed" in line or "disabled" in line for line in _of("codemode", connected.listed_between))


def test_after_disconnect_the_file_has_its_old_bytes_unless_the_host_has_written_it(connected: Connected) -> None:
    if "only what `connect` did" not in connected.said:
        assert connected.after == connected.before
    assert b"codemode" not in connected.after
    assert b"CODEMODE_CONFIG" in connected.between


def test_after_disconnect_the_host_does_not_know_the_product(connected: Connected) -> None:
    assert not _of("codemode-server", connected.listed_after)
    if connected.host.add:
        assert _of("other", connected.listed_after)
