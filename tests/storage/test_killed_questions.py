"""The product is killed while a call waits for a person: the question is still there, `codemode-server approvals`
answers it, the resumed program joins it, and the write happens once."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.cli import run as main
from codemode_server.config import load
from codemode_server.domain.approvals import Approval
from codemode_server.features.approvals import commands as approvals
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite import FILE_NAME
from tests.behaviour.product import UPSTREAMS, Host, configuration
from tests.storage.test_kills import LOCAL, kill, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
PROGRAM = """
from servers.diary import write
[write(text='before'), write(text='asked'), write(text='after')]
"""
RULES = {"rules": [{"allow": "diary/write", "when": "args.text != 'asked'"}, {"ask": "diary/write"}]}


class Killed:
    """A product that was killed while its one question was open, and what its upstream wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        diary = {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(folder / "diary")]}
        approvals = {"browser": "never", "answer_seconds": 1}
        self.path = configuration(folder, {"diary": diary}, permissions=RULES, approvals=approvals)
        with running(self.path, PROGRAM) as product:
            anyio.run(self._until_asked)
            kill(product)
        (self.question,) = anyio.run(self.questions)

    async def questions(self) -> list[Approval]:
        state = self.folder / "state"
        if not (state / FILE_NAME).exists():
            return []
        with closing(DatabaseThread(state)) as thread:
            return list(await ApprovalStore(thread, JournalCipher(state)).unanswered(LOCAL))

    async def _until_asked(self) -> None:
        with anyio.fail_after(60):
            while not self.diary() or not await self.questions():
                await anyio.sleep(0.05)

    def diary(self) -> list[str]:
        path = self.folder / "diary"
        return path.read_text().splitlines() if path.exists() else []

    def command(self, *arguments: str) -> int:
        return main(["approvals", *arguments, "--config", str(self.path)])

    @asynccontextmanager
    async def next_product(self) -> AsyncIterator[Host]:
        async with App.open(load(self.path)) as app, Client(app.front) as client:
            host = Host(client, self.folder)
            await host.settled()
            yield host

    async def resumed(self, host: Host) -> Any:
        return await host.call("execute_code", resume=self.question.execution_id)


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killed:
    monkeypatch.setattr(approvals, "person_confirms", lambda page, question: True)
    return Killed(tmp_path)


def test_the_question_is_listed_before_and_after_and_a_resumed_program_joins_it_and_writes_once(
    killed: Killed, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        async with killed.next_product() as host:
            assert (await anyio.to_thread.run_sync(listed)) == expected
            waiting = await killed.resumed(host)
            assert waiting.content["status"] == "waiting"
            assert [it.approval_id for it in await killed.questions()] == [killed.question.approval_id]
            assert killed.diary() == ["before"]
            assert await anyio.to_thread.run_sync(killed.command, "approve", killed.question.approval_id) == 0
            assert (await killed.resumed(host)).value == [1, 2, 3]

    def listed() -> tuple[str, dict[str, str]]:
        assert killed.command("list", "--json") == 0
        (one,) = json.loads(capsys.readouterr().out)
        return one["id"], one["arguments"]

    expected = killed.question.approval_id, {"text": "asked"}
    assert listed() == expected
    anyio.run(run)
    assert killed.diary() == ["before", "asked", "after"]


@pytest.mark.parametrize(("answer", "entries"), [("approve", ["before", "asked", "after"]), ("deny", ["before"])])
def test_an_answer_before_the_next_product_starts_holds(killed: Killed, answer: str, entries: list[str]) -> None:
    assert killed.command(answer, killed.question.approval_id) == 0

    async def run() -> Any:
        async with killed.next_product() as host:
            return await killed.resumed(host)

    resumed = anyio.run(run)
    assert (resumed.content["status"] == "succeeded") == (answer == "approve"), resumed.text
    assert killed.diary() == entries
    assert anyio.run(killed.questions) == []
