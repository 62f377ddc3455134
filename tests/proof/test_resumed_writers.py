"""A program that writes to a git repository, a database, a file and a memory, by published servers, is resumed after
its product was killed in the middle: nothing is done twice, nothing is missing, and writes of which nobody knows
whether they arrived are reported and decided by `approvals.unknown`.

The tests look at the repository, the database, the file and the memory, and at what reached the servers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.domain.approvals import Approval, ApprovalAnswer
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_journal import SqliteJournal
from tests.behaviour.product import Answer, Host
from tests.proof.published_writers import CONCURRENT, PROGRAM, WRITES, Point, Shop, When, name_of, once, run_until
from tests.storage.test_kills import LOCAL, PROCESSES

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300), pytest.mark.usefixtures("real_servers")]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    PROCESSES.set_forkserver_preload(
        ["codemode_server.app", "codemode_server.front.server", "tests.storage.test_kills"]
    )
    made = Shop(tmp_path)
    made.make()
    return made


def killed(shop: Shop, point: Point, program: str = PROGRAM, **sections: Any) -> Path:
    """The configuration of a product that was killed at that point."""
    path = shop.configuration(**sections)
    run_until(point, path, shop.filled(program))
    return path


async def interrupted(shop: Shop) -> tuple[str, list[str]]:
    """The id of the program that was interrupted, and its writes of which nobody knows whether they arrived."""
    state = shop.folder / "state"
    with closing(DatabaseThread(state)) as thread:
        journal = SqliteJournal(thread, JournalCipher(state))
        (one,) = await journal.executions(LOCAL, limit=9)
        calls = [it.call for it in await journal.calls(LOCAL, one.execution_id) if it.outcome is None]
    return one.execution_id, sorted(name_of(it.tool, it.arguments) for it in calls if it.tool in WRITES.values())


@asynccontextmanager
async def next_product(path: Path) -> AsyncIterator[tuple[App, Host, str]]:
    """The product that follows, and the id of the program that was interrupted."""
    async with App.open(load(path)) as app, Client(app.front) as client:
        host = Host(client, path.parent)
        await host.settled()
        (one,) = await app.stores.journal.executions(app.principal, limit=9)
        yield app, host, one.execution_id


async def resumed(path: Path) -> Answer:
    async with next_product(path) as (_, host, name):
        return await host.call("execute_code", resume=name)


async def answered(path: Path, *, is_approved: bool) -> tuple[Answer, Approval]:
    """The program is resumed, and the person answers its question."""
    asked: list[Approval] = []
    async with next_product(path) as (app, host, name), anyio.create_task_group() as tasks:

        async def answer() -> None:
            async def is_asked() -> bool:
                asked[:] = await app.stores.approvals.unanswered(app.principal)
                return bool(asked)

            await host.until(is_asked)
            await app.stores.approvals.answer(asked[0].approval_id, ApprovalAnswer(is_approved, channel="command"))

        tasks.start_soon(answer)
        result = await host.call("execute_code", resume=name)
    return result, asked[0]


def test_control_a_program_that_is_not_killed_makes_each_write_once(shop: Shop) -> None:
    async def run() -> Answer:
        async with App.open(load(shop.configuration())) as app, Client(app.front) as client:
            return await Host(client, shop.folder).run(shop.filled(PROGRAM))

    assert anyio.run(run).value == []
    assert shop.state() == shop.sent() == once()


@pytest.mark.parametrize("kind", WRITES)
def test_after_a_kill_between_two_writes_each_is_made_once(shop: Shop, kind: str) -> None:
    path = killed(shop, Point(WRITES[kind], 2, "answered"))
    before = shop.state()
    assert f"{kind} 1" in before
    assert before < once(), "control: there is something left to do"
    assert anyio.run(resumed, path).value == []
    assert shop.state() == shop.sent() == once()


def test_a_program_that_is_killed_again_each_time_it_is_resumed_makes_each_write_once(shop: Shop) -> None:
    path = killed(shop, Point("git_commit", 1, "answered"))
    name, _ = anyio.run(interrupted, shop)
    for tool in ("write_query", "edit_file", "add_observations"):
        before = shop.state().total()
        run_until(Point(tool, 1, "answered"), path, "", resume=name)
        assert before < shop.state().total() < once().total(), "control: each run makes some of them"
    assert anyio.run(resumed, path).value == []
    assert shop.state() == shop.sent() == once()


@pytest.mark.parametrize("tool", WRITES.values())
def test_of_concurrent_writes_all_that_were_in_flight_are_reported_and_no_others(shop: Shop, tool: str) -> None:
    path = killed(shop, Point(tool, 2, "done"), CONCURRENT, approvals={"unknown": "fail"})
    _, unknown = anyio.run(interrupted, shop)
    assert name_of(tool, {"any": "note 1"}) in unknown, "control"
    assert shop.state() < once(), "control: there is something left to do"
    assert anyio.run(resumed, path).value == unknown
    arrived = shop.state()
    """One that was in flight may arrive after the kill: a server finishes what it does."""
    assert arrived == shop.sent() == once(*(it for it in unknown if it not in arrived))


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("when", ["recorded", "done"])
def test_a_write_that_may_have_arrived_is_reported_and_not_made_again(shop: Shop, kind: str, when: When) -> None:
    """With `fail`: the program learns of it, and it is there if it had arrived."""
    path = killed(shop, Point(WRITES[kind], 2, when), approvals={"unknown": "fail"})
    has_arrived = shop.state()[f"{kind} 1"] == 1
    assert has_arrived == (when == "done"), "control"
    missing = [] if has_arrived else [f"{kind} 1"]
    failed = ["commit 1"] if missing == ["file 1"] else []
    """Git commits nothing if the file is as it was."""
    reported = [[f"{kind} 1", "refused"], *([name, "tool_failed"] for name in failed)]
    assert anyio.run(resumed, path).value == reported
    assert shop.sent() == once(*missing)
    assert shop.state() == once(*missing, *failed)


def test_with_retry_a_write_that_had_not_arrived_is_made(shop: Shop) -> None:
    path = killed(shop, Point("git_commit", 2, "recorded"), approvals={"unknown": "retry"})
    assert anyio.run(resumed, path).value == []
    assert shop.state() == shop.sent() == once()


def test_with_retry_a_write_that_had_arrived_is_made_twice(shop: Shop) -> None:
    """That is what the person chose; the row is the same, since randomness repeats."""
    path = killed(shop, Point("write_query", 2, "done"), approvals={"unknown": "retry"})
    assert anyio.run(resumed, path).value == []
    assert shop.state() == shop.sent() == once() + once(*(it for it in once() if it != "row 1"))
    assert len(set(shop.rows())) == 3


def test_with_skip_a_write_that_had_arrived_is_made_once_and_the_program_goes_on(shop: Shop) -> None:
    path = killed(shop, Point("edit_file", 2, "done"), approvals={"unknown": "skip"})
    assert anyio.run(resumed, path).value == []
    assert shop.state() == shop.sent() == once()


@pytest.mark.parametrize("when", ["recorded", "done"])
def test_with_ask_the_person_who_looks_at_the_server_answers_right(shop: Shop, when: When) -> None:
    path = killed(shop, Point("git_commit", 2, when))
    has_arrived = shop.state()["commit 1"] == 1
    answer, asked = anyio.run(partial(answered, path, is_approved=not has_arrived))
    assert "not known whether it arrived" in asked.question.reason
    assert asked.question.arguments["message"] == "note 1"
    assert answer.value == ([["commit 1", "refused"]] if has_arrived else [])
    assert shop.state() == shop.sent() == once()


def test_an_execution_is_resumed_and_replayed_from_the_command_line(shop: Shop) -> None:
    path = killed(shop, Point("git_commit", 2, "done"), approvals={"unknown": "fail"})

    def command(*arguments: str) -> Any:
        program = [sys.executable, "-m", "codemode_server", "executions", *arguments, "--json", "--config", str(path)]
        return json.loads(subprocess.run(program, check=True, capture_output=True, text=True).stdout)

    (interrupted,) = command("list")
    assert command("resume", interrupted["execution_id"])["value"] == [["commit 1", "refused"]]
    assert shop.state() == shop.sent() == once()
    logs = {log: log.stat().st_size for log in shop.folder.glob("*.log")}
    replayed = command("replay", interrupted["execution_id"])
    assert replayed["value"] == [["commit 1", "refused"]]
    assert replayed["execution_id"] != interrupted["execution_id"]
    assert {log: log.stat().st_size for log in shop.folder.glob("*.log")} == logs, "no server was started"
    assert shop.state() == once()
