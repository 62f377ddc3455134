"""`codemode-server skills`: a person sees all of what a program saved, and only a person at a terminal accepts it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.cli import run
from codemode_server.cli.terminal import local_time
from codemode_server.domain.flows import Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.features.skills import commands as skills
from codemode_server.features.skills.rules import BY_NAME, facts_of
from codemode_server.features.skills.store import SavedSkill, SkillStore
from codemode_server.storage.audit import Audit
from codemode_server.storage.database_thread import DatabaseThread

from .pseudo_terminal import at_terminal, without_terminal

TEXT = 'def count(rows: list[int]) -> int:\n    """Count them."""\n    return len(rows)\n'
SAVED = SavedSkill(
    "count",
    TEXT,
    ExecutionId("x7f3a9c21b04"),
    "s1",
    1_790_000_000.0,
    ("drive.get",),
    (Source("drive", "get", "drive.get", frozenset({"private"}), 1.0),),
)


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    (tmp_path / "upstream.yaml").write_text(json.dumps({"servers": {}, "state": {"dir": str(tmp_path / "state")}}))
    made = SkillStore(tmp_path / "state", Principal(PrincipalId("default")))
    made.propose(SAVED)
    return made


def call(store: SkillStore, *arguments: str) -> int:
    return run(["skills", *arguments, "--config", str(store.path.parents[2] / "upstream.yaml")])


@pytest.fixture
def _agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skills, "person_confirms", lambda _page, _question: True)


def test_the_list_has_what_waits_with_its_signature_and_its_tools(
    store: SkillStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(store) == 0
    assert capsys.readouterr().out.splitlines()[:4] == [
        f"count@x7f3a9c21b04: waits for you; saved {local_time(SAVED.saved_at)}",
        "    count(rows: list[int]) -> int",
        "    Count them.",
        "    calls drive.get",
    ]


def test_all_of_the_text_is_shown_with_what_its_session_had_read(
    store: SkillStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(store, "show", "count") == 0
    shown = capsys.readouterr().out
    assert "its session had read drive.get: private" in shown.splitlines()
    assert "   3      return len(rows)" in shown


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("from client import call_mcp_tool", 'call_mcp_tool("mcp__github__delete_repo")', "calls github.delete_repo"),
        ("from client import call_mcp_tool", 'call_mcp_tool("mcp__github__repos.list")', "calls github.repos.list"),
        ("import mcp", 'mcp.call("github", "delete_repo")', "calls github.delete_repo"),
        ("from codemode import call", 'call("github", "delete_repo")', "calls github.delete_repo"),
        ("from codemode import call", 'call("git" + "hub", "delete_repo")', f"calls {BY_NAME}"),
        ("import codemode", "codemode.call(*rows)", f"calls {BY_NAME}"),
        ("import codemode", "getattr(codemode, 'call')('github', 'delete_repo')", f"calls {BY_NAME}"),
        ("from codemode import call as c", 'c("github", "delete_repo")', f"calls {BY_NAME}"),
        ("from client import call_mcp_tool", "call_mcp_tool(rows)", f"calls {BY_NAME}"),
        ("from servers.mail import *", "send(to=rows)", f"calls {BY_NAME}, mail.*"),
        ("import servers", "getattr(servers.github, 'delete_repo')()", f"calls {BY_NAME}"),
        ("import servers.mail", "servers.mail.send(to=rows)", "calls mail, mail.send"),
        ("import json", "json.dumps(rows)", "calls no tools"),
    ],
)  # fmt: skip
def test_the_page_of_a_skill_names_the_tools_that_it_calls_by_their_names(
    store: SkillStore, capsys: pytest.CaptureFixture[str], head: str, body: str, expected: str
) -> None:
    text = f"{head}\n\ndef count(rows):\n    return {body}\n"
    store.delete_proposal(SAVED)
    store.propose(replace(SAVED, text=text, tools=facts_of("count", text).tools))
    assert call(store, "show", "count") == 0
    assert expected in capsys.readouterr().out.splitlines()


def test_no_text_of_a_program_controls_the_terminal(store: SkillStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.propose(replace(SAVED, text="x = '\x1b[2J\u202e'\n"))
    for action in ("show", "diff", "list"):
        assert call(store, action, *(["count"] if action != "list" else [])) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[2J\\u202e" in shown
    assert "\x1b" not in shown


@pytest.mark.usefixtures("_agrees")
def test_a_new_version_is_shown_as_the_difference(store: SkillStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(store, "accept", "count") == 0
    assert "accepted: from skills.count import count" in capsys.readouterr().out
    store.propose(replace(SAVED, text=TEXT.replace("len(rows)", "len(rows) + 1"), execution_id=ExecutionId("x2")))
    assert call(store, "diff", "count") == 0
    shown = capsys.readouterr().out
    assert "-    return len(rows)" in shown
    assert "+    return len(rows) + 1" in shown
    assert call(store, "accept", "count") == 0
    (in_use,) = store.in_use()
    assert "len(rows) + 1" in in_use.text
    assert in_use.sources == ()


@pytest.mark.usefixtures("_agrees")
def test_the_audit_has_what_the_person_accepted_rejected_and_took_out_of_use(store: SkillStore) -> None:
    other = replace(SAVED, execution_id=ExecutionId("x2"), session_id="s2")
    store.propose(other)
    assert call(store, "show", "count@x2") == 0
    assert audited(store) == [], "control: looking at it is no decision"
    assert call(store, "reject", "count@x2", "--yes") == 0
    assert call(store, "accept", "count") == 0
    assert call(store, "reject", "count", "--yes") == 0
    assert [(it.kind, it.tool, it.status) for it in audited(store)] == [
        (AuditEventKind.SKILL_REJECTED, "count", "rejected"),
        (AuditEventKind.SKILL_ACCEPTED, "count", "accepted"),
        (AuditEventKind.SKILL_REJECTED, "count", "out of use"),
    ]
    reason = audited(store)[0].reason
    assert reason == f"count@x2, saved by execution x2, SHA-256 {SAVED.digest[:16]}"


def audited(store: SkillStore) -> list[AuditEvent]:
    thread = DatabaseThread(store.path.parents[1])
    try:
        return [row.event for row in anyio.run(Audit(thread).rows, store.principal)]
    finally:
        thread.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_only_a_person_at_a_terminal_accepts(store: SkillStore) -> None:
    command = [sys.executable, "-m", "codemode_server", "skills", "accept", "count"]
    command += ["--config", str(store.path.parents[2] / "upstream.yaml")]
    ran = without_terminal(command)
    assert (ran.returncode, "needs a person at a terminal" in ran.stderr) == (2, True)
    assert store.in_use() == []
    shown = at_terminal(command)
    assert "return len(rows)" in shown
    assert [it.name for it in store.in_use()] == ["count"]
