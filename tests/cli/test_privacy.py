"""`codemode-server privacy` lists tokens, shows values and forgets them; `executions show` marks tokens."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest

from codemode_server.cli import run
from codemode_server.config.live import DEFAULT_PRINCIPAL
from codemode_server.domain.approvals import Approval, ApprovalId
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from tests.behaviour.person import Person
from tests.behaviour.product import configuration, in_memory
from tests.behaviour.test_privacy_tokens import ORIGINAL, SHEET, TO_GITHUB, protected
from tests.database import rows
from tests.web.pages import OTHER, OWN, State

from .pseudo_terminal import at_terminal, without_terminal

SEND = "from servers.salesforce import update_record\nupdate_record('M', '1', {'to': '<EMAIL_1>'})"


def command(path: Path, *arguments: str) -> list[str]:
    return ["privacy", *arguments, "--config", str(path)]


def program(path: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "codemode_server", *command(path, *arguments)]


@pytest.mark.slow
async def test_tokens_are_listed_without_values_shown_to_the_person_and_forgotten_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = protected(tmp_path)
    async with in_memory(path) as host:
        await host.run(SHEET + "rows[0]")
        await host.run(SEND)
        capfd.readouterr()
        assert await anyio.to_thread.run_sync(run, command(path, "list", "--json", "--kind", "email")) == 0
        listed = capfd.readouterr().out
        assert [it["token"] for it in json.loads(listed)][:2] == ["<EMAIL_1>", "<EMAIL_2>"]
        assert ORIGINAL not in listed
        hidden = await anyio.to_thread.run_sync(without_terminal, program(path, "show", "EMAIL_1"))
        assert hidden.returncode == 2
        assert ORIGINAL not in hidden.stdout + hidden.stderr
        shown = await anyio.to_thread.run_sync(lambda: at_terminal(program(path, "show", "EMAIL_1"), ("\n", "")))
        assert ORIGINAL in shown
        kept = await anyio.to_thread.run_sync(without_terminal, program(path, "forget", "EMAIL_1"))
        assert kept.returncode == 2
        await anyio.to_thread.run_sync(at_terminal, program(path, "forget", "EMAIL_1"))
        assert "were forgotten or have expired" in (await host.run(SEND)).text
        assert [it["data"]["to"] for it in host.reached("update_record")] == [ORIGINAL]
    kinds = rows(tmp_path / "state", "SELECT kind, reason FROM events WHERE kind LIKE 'privacy%' ORDER BY number")
    assert kinds == [("privacy_shown", "<EMAIL_1>"), ("privacy_forgotten", "<EMAIL_1>")]


@pytest.mark.slow
async def test_a_forgotten_value_is_in_no_stored_question(tmp_path: Path) -> None:
    """Neither in one that was answered, nor in one that a killed product has left open. The control is the open one
    before."""
    path = protected(tmp_path, on_release="ask")
    person = Person(content={"answer": "Allow this call"})
    async with in_memory(path, elicitation_callback=person.elicit) as host:
        await host.run(SHEET + TO_GITHUB)
    assert ORIGINAL in person.seen[0].message
    (answered,) = await questions(tmp_path)
    assert answered.question.changes == ("<EMAIL_1> (email)",)
    line = f"<EMAIL_1> (email) is {ORIGINAL!r}"
    left = replace(answered, approval_id=ApprovalId("left"), execution_id=ExecutionId("x2"), answer=None)
    await stored(tmp_path, replace(left, question=replace(left.question, changes=(line,))))
    assert [it.question.changes for it in await questions(tmp_path)] == [("<EMAIL_1> (email)",), (line,)]
    await anyio.to_thread.run_sync(at_terminal, program(path, "forget", "--all"))
    assert [it.question.changes for it in await questions(tmp_path)] == [("<EMAIL_1> (email)",)] * 2


async def questions(folder: Path) -> list[Approval]:
    """All that are stored, answered ones first."""
    state, thread = folder / "state", DatabaseThread(folder / "state")
    store = ApprovalStore(thread, JournalCipher(state))
    try:
        named = rows(state, "SELECT approval_id FROM approvals")
        answered = await store.answered([ApprovalId(name) for (name,) in named])
        return [*answered, *await store.unanswered(Principal(PrincipalId(DEFAULT_PRINCIPAL)))]
    finally:
        thread.close()


async def stored(folder: Path, approval: Approval) -> None:
    thread = DatabaseThread(folder / "state")
    await ApprovalStore(thread, JournalCipher(folder / "state")).ask(approval)
    thread.close()


VALUE, OTHERS = "ann@example.org", "bob@example.org"


async def recorded(folder: Path) -> list[str]:
    """A program with a token, and the command that shows it."""
    state = {"dir": str(folder / "state"), "payloads": "all"}
    path = configuration(folder, {}, state=state)
    written = State(folder / "state")
    await written.privacy_token(VALUE)
    await written.privacy_token("first@example.org", principal=OTHER)
    await written.privacy_token(OTHERS, principal=OTHER)
    await written.execution("x1", "send('<EMAIL_1>', '<EMAIL_2>')")
    written.thread.close()
    return [sys.executable, "-m", "codemode_server", "executions", "show", "x1", "--config", str(path)]


async def shown_tokens(folder: Path) -> list[str | None]:
    state = State(folder / "state")
    rows = await state.audit.rows(OWN)
    state.thread.close()
    return [row.event.reason for row in rows if row.event.kind == "privacy_shown"]


@pytest.mark.slow
async def test_values_go_to_the_terminal_of_a_person_alone_and_it_is_recorded(tmp_path: Path) -> None:
    """A model that starts the command at a person's terminal reads its output all the same."""
    command = [*await recorded(tmp_path), "--reveal"]
    refused = await anyio.to_thread.run_sync(without_terminal, command)
    assert refused.returncode == 2
    assert "needs a person at a terminal" in refused.stderr
    assert VALUE not in refused.stdout + refused.stderr
    assert await shown_tokens(tmp_path) == []
    output = tmp_path / "output"
    piped = ["/bin/sh", "-c", f"{' '.join(command)} > {output}; echo codemode ended"]
    shown = await anyio.to_thread.run_sync(lambda: at_terminal(piped, ("codemode", "")))
    assert f"<EMAIL_1> (email) stands for '{VALUE}'" in shown
    assert OTHERS not in shown
    assert VALUE not in output.read_text()
    assert "send('<EMAIL_1>', '<EMAIL_2>')" in output.read_text()
    assert await shown_tokens(tmp_path) == ["<EMAIL_1>"]
