"""`codemode-server permissions`: which rule decides on a call and why, without starting a server."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from codemode_server.cli import run
from codemode_server.config import load
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.listing_store import ListingStore
from codemode_server.upstreams.cache import CachedListing, fingerprint

TOOLS = (
    ToolDefinition("get-issue", effect=Effect.READS),
    ToolDefinition("create_issue", effect=Effect.WRITES),
    ToolDefinition("delete_repo", effect=Effect.DESTROYS),
)
RULES = [
    {"allow": "slack"},
    {"deny": "github/delete_*", "reason": "by hand"},
    {"allow": "github/create_*", "when": 'args.owner == "acme"', "limit": "10/minute"},
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose server was listed by an earlier run."""
    path = tmp_path / "upstream.yaml"
    settings = {
        "servers": {"github": {"command": "no-such-program"}},
        "permissions": {"preset": "careful", "rules": RULES},
        "state": {"dir": str(tmp_path / "state")},
    }
    path.write_text(json.dumps(settings))
    database = Database(tmp_path / "state")
    thread = DatabaseThread(database.path.parent)
    server = load(path).settings.servers["github"]
    anyio.run(ListingStore(database, thread).put, "github", fingerprint(server), CachedListing(TOOLS))
    thread.close()
    database.close()
    return path


def explained(config: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["permissions", "explain", "--config", str(config), *arguments]) == 0
    return capsys.readouterr().out


def test_the_rule_that_decides_is_printed_with_those_before_it(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = explained(config, capsys, "github/create_issue", "--args", '{"owner": "acme"}')
    assert text.splitlines() == [
        'allow: rule 3 of permissions.rules (allow: github/create_*, when: args.owner == "acme", limit: 10/minute)',
        "at most 10/minute; further calls are denied",
        "effect: write",
        "rules:",
        "  1. allow: slack: the server is github",
        "  2. deny: github/delete_*: the tool is create_issue",
        '  3. allow: github/create_*, when: args.owner == "acme", limit: 10/minute: matches',
        "labels: public-sink",
        "ask after private and untrusted data: permissions.flows.public_sinks",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"), [('{"owner": "x"}', "its condition is false"), ("{}", "Key not found in map")]
)
def test_a_condition_that_does_not_match_is_explained(
    config: Path, capsys: pytest.CaptureFixture[str], arguments: str, why: str
) -> None:
    text = explained(config, capsys, "github/create_issue", "--args", arguments)
    assert text.startswith("ask: permissions.preset 'careful'")
    assert why in text.splitlines()[-3]


def test_without_arguments_all_that_may_be_decided_is_printed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(explained(config, capsys, "github/create_issue", "--json"))
    assert found["decision"] is None
    assert [it["decision"] for it in found["possible"]] == ["allow", "ask"]
    assert found["rules"][-1]["matches"] is None


def test_the_tool_of_the_last_run_is_found_by_both_names_with_its_effect(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("github/get-issue", "github/get_issue"):
        found = json.loads(explained(config, capsys, name, "--json"))
        assert (found["decision"], found["effect"], found["is_known"]) == ("allow", "read", True)


def test_what_the_configuration_says_of_a_tool_goes_before_its_annotations(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads(config.read_text())
    settings["servers"]["github"]["effects"] = {"create_*": "read"}
    settings["permissions"] = {"preset": "careful"}
    config.write_text(json.dumps(settings))
    found = json.loads(explained(config, capsys, "github/create_issue", "--json"))
    assert (found["decision"], found["effect"]) == ("allow", "read")


def test_a_tool_that_is_not_known_is_decided_by_its_name_and_that_is_said(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = explained(config, capsys, "slack/send")
    assert text.startswith("allow: rule 1 of permissions.rules (allow: slack)\neffect: write\n")
    assert "slack/send is not known from the last run" in text


def table(folder: Path, *rows: object) -> str:
    (folder / "table.yaml").write_text(json.dumps(list(rows)))
    return str(folder / "table.yaml")


def test_a_table_of_expected_decisions_passes(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = table(
        config.parent,
        {"call": "github/delete_repo", "expect": "deny"},
        {"call": "github/create_issue", "args": {"owner": "acme"}, "expect": "allow"},
        {"call": "github/create_issue", "args": {"owner": "other"}, "expect": "ask"},
        {"call": "github/get-issue", "expect": "allow"},
    )
    assert run(["permissions", "test", file, "--config", str(config)]) == 0
    assert capsys.readouterr().out == "4 decisions as expected\n"


def test_each_difference_is_shown_and_ends_in_exit_code_1(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = table(
        config.parent,
        {"call": "github/delete_repo", "expect": "allow"},
        {"call": "github/get-issue", "args": {"number": 1}, "expect": "allow"},
        {"call": "github/create_issue", "args": {"owner": "x"}, "expect": "deny"},
    )
    assert run(["permissions", "test", file, "--config", str(config)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "1. github/delete_repo",
        "   - expected: allow",
        "   + decided:  deny: rule 2 of permissions.rules (deny: github/delete_*): by hand",
        '3. github/create_issue {"owner": "x"}',
        "   - expected: deny",
        "   + decided:  ask: permissions.preset 'careful' asks before tools that change something",
        "2 of 3 decisions differ",
    ]


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([{"call": "a/b"}], "row 1, expect"),
        ([{"call": "a/b", "expect": "yes"}], "row 1, expect"),
        ({"a": 1}, "the file"),
    ],
)
def test_a_table_of_another_form_is_an_error_with_its_place(
    config: Path, capsys: pytest.CaptureFixture[str], rows: object, place: str
) -> None:
    (config.parent / "table.yaml").write_text(json.dumps(rows))
    assert run(["permissions", "test", str(config.parent / "table.yaml"), "--config", str(config)]) == 2
    assert f"table.yaml: {place}: " in capsys.readouterr().err


@pytest.mark.parametrize(("call", "arguments"), [("github", "{}"), ("github/get_issue", "[]"), ("github/x", "{")])
def test_a_call_of_another_form_is_an_error(
    config: Path, capsys: pytest.CaptureFixture[str], call: str, arguments: str
) -> None:
    assert run(["permissions", "explain", call, "--args", arguments, "--config", str(config)]) == 2
    assert capsys.readouterr().err
