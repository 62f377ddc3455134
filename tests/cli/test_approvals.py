"""`codemode-server approvals`: a person answers from another process than the one that asks."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from codemode_server.cli import run
from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalId, Question
from codemode_server.domain.calls import CallKey
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.privacy_tokens import line_with_value
from codemode_server.domain.tools import Effect
from codemode_server.features.approvals import commands as approvals
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from tests.behaviour.product import configuration

from .pseudo_terminal import without_terminal

LOCAL = Principal(PrincipalId("default"))
ASKING = "rule 1 of permissions.rules (ask: github)"
QUESTION = Question(
    server="github",
    tool="create_issue",
    title="github.create_issue",
    effect=Effect.UNKNOWN,
    reason=ASKING,
    arguments={"owner": "ada", "title": "one\n\x1b[2Jtwo"},
    pattern={"owner": "ada"},
    rule="- allow: github/create_issue",
)


def asked(name: str = "a1", **more: Any) -> Approval:
    now = time.time()
    key = CallKey("github", "create_issue", name, 1)
    approval = Approval(ApprovalId(name), ExecutionId("x1"), LOCAL, "s1", key, QUESTION, now, now + 60)
    return replace(approval, **more)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return configuration(tmp_path, {}, permissions={"rules": [{"ask": "github"}]})


def stored(config: Path, *questions: Approval) -> list[Approval]:
    """What the store has of these, after they were put there if they are new."""

    async def put() -> list[Approval]:
        state = config.parent / "state"
        thread = DatabaseThread(state)
        store = ApprovalStore(thread, JournalCipher(state))
        found = [await store.ask(one) for one in questions]
        thread.close()
        return found

    return anyio.run(put)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Sits at the terminal, which `tests/cli/test_person_at_terminal.py` tests."""

    def answers(*, yes: bool) -> list[str]:
        shown: list[str] = []

        def confirms(page: str, question: str) -> bool:
            shown.append(f"{page}\n{question}")
            return yes

        monkeypatch.setattr(approvals, "person_confirms", confirms)
        return shown

    return answers


def command(config: Path, *arguments: str) -> int:
    return run(["approvals", *arguments, "--config", str(config)])


def test_open_questions_are_listed_and_shown_and_no_text_controls_the_terminal(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(config, asked("a1"), asked("a2", expires_at=time.time() - 1))
    assert command(config, "list") == 0
    listed = capsys.readouterr().out
    assert "a1" in listed
    assert "a2" not in listed, "its time has passed"
    assert command(config, "show", "a1") == 0
    shown = capsys.readouterr().out
    assert "Approve this call? github.create_issue" in shown
    assert "\x1b" not in listed + shown
    assert command(config, "list", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["id"], one["arguments"]["owner"], one["answer"]) == ("a1", "ada", None)


@pytest.mark.parametrize("action", [("list",), ("show", "a1")])
def test_what_a_privacy_token_stands_for_is_printed_to_a_terminal_only(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, action: tuple[str, ...]
) -> None:
    line = line_with_value("<EMAIL_1>", "e-mail address", "ada@example.com")
    stored(config, asked("a1", question=replace(QUESTION, changes=(line,))))
    for is_terminal in (False, True):
        monkeypatch.setattr("sys.stdout.isatty", lambda it=is_terminal: it)
        assert command(config, *action) == 0
        shown = capsys.readouterr().out
        assert "<EMAIL_1>" in shown
        assert ("ada@example.com" in shown) is is_terminal


@pytest.mark.parametrize(
    ("wanted", "scope", "says"),
    [
        ("call", AnswerScope.CALL, "Approve this call?"),
        ("program", AnswerScope.EXECUTION, "for the rest of this program?"),
        ("session", AnswerScope.SESSION, 'in this session with owner="ada"; any title?'),
    ],
)
def test_approving_stores_what_the_person_confirmed(
    config: Path, person: Callable[..., list[str]], wanted: str, scope: AnswerScope, says: str
) -> None:
    stored(config, asked())
    shown = person(yes=True)
    assert command(config, "approve", "a1", "--for", wanted) == 0
    (page,) = shown
    assert says in page
    assert '  owner: "ada"' in page
    (found,) = stored(config, asked())
    assert found.answer is not None
    assert (found.answer.is_approved, found.answer.scope, found.answer.channel) == (True, scope, "command")


def test_always_writes_the_rule(config: Path, person: Callable[..., list[str]]) -> None:
    stored(config, asked())
    person(yes=True)
    assert command(config, "approve", "a1", "--for", "always") == 0
    rules = json.loads(config.read_text())["permissions"]["rules"]
    assert rules == [{"allow": "github/create_issue"}, {"ask": "github"}]


def test_denying_needs_no_terminal_and_tells_the_program_why(config: Path) -> None:
    stored(config, asked())
    assert command(config, "deny", "a1", "--reason", "wrong\nrepository") == 0
    (found,) = stored(config, asked())
    assert found.answer is not None
    assert (found.answer.is_approved, found.answer.reason) == (False, "wrong repository")


@pytest.mark.parametrize("action", ["approve", "deny"])
def test_what_was_answered_withdrawn_or_too_late_is_not_answered(
    config: Path, person: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], action: str
) -> None:
    person(yes=True)
    stored(config, asked("a1"), asked("a2", expires_at=time.time() - 1))
    command(config, "deny", "a1")
    known = [("a2", "nobody answered in time"), ("a3", "there is no question")]
    for name, says in known if action == "approve" else [("a1", "refused (command"), *known]:
        assert command(config, action, name) == 2
        assert says in capsys.readouterr().err


def test_a_refused_call_may_still_be_allowed_once(
    config: Path, person: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    person(yes=True)
    late = asked("a2", asked_at=time.time() - 90_000)
    stored(config, asked("a1"), late)
    command(config, "deny", "a1")
    command(config, "deny", "a2")
    command(config, "list")
    assert "refused; `codemode-server approvals approve ID` allows one after all:\na1 " in capsys.readouterr().out
    assert [command(config, "approve", it) for it in ("a2", "a1", "a1")] == [2, 0, 2]
    assert "approved (command" in capsys.readouterr().err
    (found, *_) = stored(config, asked("a1"))
    assert found.answer is not None
    assert found.answer.is_approved


@pytest.mark.parametrize(
    ("arguments", "scope", "result"),
    [
        (["arrived", "a1"], AnswerScope.ARRIVED, None),
        (["arrived", "a1", "--result", '{"number": 7}'], AnswerScope.ARRIVED, {"number": 7}),
        (["arrived", "a1", "--result", "done it"], AnswerScope.ARRIVED, "done it"),
        (["approve", "a1"], AnswerScope.CALL, None),
    ],
)
def test_a_call_without_an_answer_arrived_or_is_sent_again(
    config: Path,
    person: Callable[..., list[str]],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    scope: AnswerScope,
    result: Any,
) -> None:
    shown = person(yes=True)
    unanswered = asked("a1")
    stored(config, replace(unanswered, question=replace(unanswered.question, is_unanswered=True)), asked("a2"))
    command(config, "list")
    assert "arrived ID [--result JSON]" in capsys.readouterr().out
    assert command(config, "approve", "a1", "--for", "program") == 2
    assert command(config, "arrived", "a2") == 2, "one that was never sent"
    capsys.readouterr()
    assert command(config, *arguments) == 0
    assert capsys.readouterr().out.startswith("arrived: " if scope is AnswerScope.ARRIVED else "approved: ")
    assert "Did this call arrive?" in shown[-1]
    answer = stored(config, unanswered)[0].answer
    assert answer is not None
    assert (answer.scope, answer.result) == (scope, result)


def test_a_command_without_a_terminal_approves_nothing(config: Path) -> None:
    """As a model runs it, with an answer on stdin; the control is above."""
    stored(config, asked())
    line = ["-m", "codemode_server", "approvals", "approve", "a1", "--config", str(config)]
    ran = without_terminal([sys.executable, *line])
    assert ran.returncode == 2
    assert "needs a person at a terminal" in ran.stderr
    (found,) = stored(config, asked())
    assert found.answer is None
