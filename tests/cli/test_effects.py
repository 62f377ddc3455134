"""`codemode-server effects`: tools that only read by name and description are proposed where the server says nothing of
its tools' effects. A proposal changes nothing until a person at a terminal accepts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from codemode_server.calls.policy.effect_proposals import proposal_lines, seems_to_read
from codemode_server.catalog.catalog import Catalog
from codemode_server.cli import run
from codemode_server.config import load
from codemode_server.config.settings import PermissionSettings
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState

from .known_servers import known_github
from .pseudo_terminal import at_terminal, without_terminal

TOOLS = (
    ToolDefinition("get_issue", "Get an issue."),
    ToolDefinition("read_query", "Execute a SELECT query."),
    ToolDefinition("get_and_delete", "Get a message."),
    ToolDefinition("create_issue", "Create an issue."),
    ToolDefinition("list_repos", "List repositories.", effect=Effect.WRITES),
)
CAREFUL = {"preset": "careful"}


@pytest.mark.parametrize(
    ("name", "description", "is_proposed"),
    [
        ("get_issue", "Get an issue", True),
        ("slack_list_channels", "List public channels with pagination", True),
        ("read_query", "Execute a SELECT query on the database", True),
        ("get_commit", "Get a commit", True),
        ("get_and_delete", "", False),
        ("read_query", "Executes any SQL, including INSERT", False),
        ("read_query", "Execute DELETE statements", False),
        ("read_mail", "Reads the mailbox. Marks all of it as read.", False),
        ("read_file", "Reads a file, and may overwrite it", False),
        ("get_[ab]", "Get something", False),
        ("query", "Execute a query", False),
        ("fetch", "Fetch a page", False),
    ],
)
def test_a_tool_is_proposed_if_name_and_description_say_nothing_but_reading(
    name: str, description: str, is_proposed: bool
) -> None:
    assert seems_to_read(ToolDefinition(name, description)) is is_proposed


def test_of_real_tools_whose_servers_say_that_they_change_something_next_to_none_would_be_proposed(
    real_listings: tuple[UpstreamListing, ...],
) -> None:
    """Measured on 813 tools with annotations of 35 servers: one of 358 that change something (it writes a file only
    if an argument names one), 216 of 455 that read."""
    tools = [it for listing in real_listings for it in listing.tools]
    changing = [it for it in tools if it.effect in (Effect.WRITES, Effect.DESTROYS)]
    unstated = [ToolDefinition(it.name, it.description) for it in changing]
    assert [it.name for it in unstated if seems_to_read(it)] == ["get_network_request"]


def test_what_does_not_ask_is_not_proposed() -> None:
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, TOOLS)])

    def lines(**permissions: object) -> list[str]:
        return proposal_lines(PermissionSettings.model_validate(permissions), catalog)

    assert lines(preset="careful") == [
        "effects: 2 tools of github can't be called without a question, but by name and description only read; "
        "`codemode-server effects accept github` shows and accepts that"
    ]
    assert lines(preset="trusted") == []
    assert len(lines(preset="read-only")) == 1
    assert lines(preset="careful", rules=[{"allow": "github"}]) == []
    assert lines(preset="careful", rules=[{"deny": "github"}]) == [], "it would be denied all the same"


def test_proposals_are_listed_without_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = known_github(tmp_path, CAREFUL, TOOLS)
    before = path.read_text()
    assert run(["effects", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "  get_issue   Get an issue.\n  read_query  Execute a SELECT query.\n" in shown
    assert "get_and_delete" not in shown
    assert run(["effects", "list", "--json", "--config", str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"github": ["get_issue", "read_query"]}
    assert path.read_text() == before
    assert run(["effects", "list", "githb", "--config", str(path)]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_person_at_a_terminal_accepts_what_is_shown_and_it_is_not_asked_about_any_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = known_github(tmp_path, CAREFUL, TOOLS)
    accept = [sys.executable, "-m", "codemode_server", "effects", "accept", "github", "--config", str(path)]
    assert without_terminal(accept).returncode == 2
    assert load(path).settings.servers["github"].effects == {}
    assert "get_issue" in at_terminal(accept)
    assert load(path).settings.servers["github"].effects == {"get_issue": "read", "read_query": "read"}
    assert run(["permissions", "explain", "github/get_issue", "--config", str(path)]) == 0
    assert capsys.readouterr().out.startswith("allow: ")
    assert run(["effects", "--config", str(path)]) == 0
    assert "no tool" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_an_effect_is_set_by_hand_unless_an_earlier_glob_would_decide(tmp_path: Path) -> None:
    path = known_github(tmp_path, CAREFUL, TOOLS)
    before = "# mine\nservers:\n  github:\n    command: no-such-program  # local\n"
    path.write_text(before)
    command = [sys.executable, "-m", "codemode_server", "effects", "set"]
    at_terminal([*command, "github/get_*", "read", "--config", str(path)])
    at_terminal([*command, "github/get_*", "write", "--config", str(path)])
    assert path.read_text() == f"{before}    effects:\n      get_*: write\n"
    assert "decides before" in at_terminal([*command, "github/get_issue", "read", "--config", str(path)])
    assert "get_issue" not in path.read_text()
