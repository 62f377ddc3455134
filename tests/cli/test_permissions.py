"""`codemode-server permissions`: which rule decides on a call and why, without starting a server."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.cli import run
from codemode_server.config import load
from codemode_server.config.live import local_principal
from codemode_server.domain.flows import WORKSPACE, Source
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.features.data_flow.source_store import SourceStore
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread

from .known_servers import known_github
from .pseudo_terminal import at_terminal, without_terminal

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
    return known_github(tmp_path, {"preset": "careful", "rules": RULES}, TOOLS)


def explained(config: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["permissions", "explain", "--config", str(config), *arguments]) == 0
    return capsys.readouterr().out


@contextmanager
def stored(config: Path) -> Iterator[tuple[Database, DatabaseThread]]:
    database = Database(config.parent / "state")
    thread = DatabaseThread(config.parent / "state")
    yield database, thread
    thread.close()
    database.close()


def test_a_flow_is_explained_for_a_session_that_has_read_and_for_a_new_one(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = json.loads(config.read_text())
    settings["permissions"]["flows"] = {"rules": [{"from": "payroll", "to": "github"}]}
    config.write_text(json.dumps(settings))
    call = ("github/create_issue", "--args", '{"owner": "acme"}')
    owner = local_principal(load(config).settings).principal_id
    payroll = Source("payroll", "salaries", "payroll.salaries", frozenset({"private"}), time.time())
    with stored(config) as (database, thread):
        anyio.run(SourceStore(database, thread).add, (owner, "one"), [payroll])
    assert explained(config, capsys, *call).startswith("allow: "), "control: a new session has read nothing"
    text = explained(config, capsys, *call, "--session", "one")
    assert text.startswith(
        "deny: rule 1 of permissions.flows.rules (from: payroll, to: github): this session has read "
    )
    assert run(["permissions", "explain", *call, "--session", "two", "--config", str(config)]) == 2
    assert "codemode-server sources" in capsys.readouterr().err
    with stored(config) as (database, thread):
        anyio.run(SourceStore(database, thread).add, (owner, WORKSPACE), [payroll])
    assert "payroll.salaries by way of /workspace" in explained(config, capsys, *call)


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
    ("call", "code", "told"),
    [
        ("github/get-isue", 2, "no tool github/get-isue in the last list of github; did you mean get-issue?"),
        ("github.get-isue", 2, "no tool github/get-isue in the last list of github; did you mean get-issue?"),
        ("githb/get-issue", 1, "no server githb; did you mean github?"),
    ],
)
def test_an_unknown_name_is_told_first_with_the_nearest(
    config: Path, capsys: pytest.CaptureFixture[str], call: str, code: int, told: str
) -> None:
    assert run(["permissions", "explain", "--config", str(config), call]) == code
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"there is {told} By its name alone it would be:"
    assert second.startswith("ask: ")


def table(folder: Path, *rows: object) -> str:
    (folder / "table.yaml").write_text(json.dumps(list(rows)))
    return str(folder / "table.yaml")


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


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("rules", "pattern", "index", "told"),
    [
        ([], "github/create_*", 0, []),
        ([{"ask": "github"}], "github/get-issue", 0, []),
        ([{"ask": "github"}, {"deny": "github/delete_*"}], "github/create_issue", 0, []),
        ([{"deny": "bank"}, {"ask": "github"}], "github/get-issue", 0, []),
        ([{"ask": "github"}, {"deny": "github/delete_*"}], "github", 2, ["get-issue, ask", "create_issue, ask"]),
        ([{"deny": "github/delete_*"}, {"ask": "*"}], "github", 1, ["delete_repo, deny"]),
    ],
)
def test_a_rule_that_allows_is_put_before_what_asks_and_never_before_what_may_deny(
    tmp_path: Path, rules: list[dict[str, str]], pattern: str, index: int, told: list[str]
) -> None:
    path = known_github(tmp_path, {"preset": "careful", "rules": rules}, TOOLS)
    command = [sys.executable, "-m", "codemode_server", "permissions", "allow", pattern, "--config", str(path)]
    shown = at_terminal(command)
    assert json.loads(path.read_text())["permissions"]["rules"] == [*rules[:index], {"allow": pattern}, *rules[index:]]
    assert all(f"not for github/{it}" in shown for it in told), shown
    assert "not for" in shown or not told


def test_nobody_but_a_person_at_a_terminal_allows_calls(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = config.read_text()
    command = [sys.executable, "-m", "codemode_server", "permissions", "allow", "github", "--config", str(config)]
    assert without_terminal(command).returncode == 2
    assert config.read_text() == before
    assert run(["permissions", "allow", "github/a/b", "--config", str(config)]) == 2
    assert "of the form `server/tool`" in capsys.readouterr().err
