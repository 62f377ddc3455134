"""Which steps the database's thread does in one transaction: each transaction is a switch of threads and a write.

Driven by steps on a real database; a savepoint shows whether two steps were in the same transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite import FILE_NAME


async def test_what_nobody_waits_for_is_done_in_the_transaction_of_the_next_step(thread: DatabaseThread) -> None:
    thread.post(lambda connection: connection.exec_driver_sql("SAVEPOINT first"), "lost")
    await thread.run(lambda connection: connection.exec_driver_sql("RELEASE first"))


async def test_what_nobody_waits_for_is_done_also_if_no_other_step_follows(thread: DatabaseThread) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    thread.post(lambda connection: loop.call_soon_threadsafe(done.set), "lost")
    with anyio.fail_after(60):
        await done.wait()


async def test_what_nobody_waits_for_is_done_before_the_thread_ends(place: DatabasePlace) -> None:
    done: list[str] = []
    thread = DatabaseThread(place)
    thread.post(lambda connection: done.append("posted"), "lost")
    thread.close()
    assert done == ["posted"]


async def test_a_step_that_meets_the_end_of_the_thread_is_refused(
    thread: DatabaseThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread ends between the request of a step and its place in the queue: the caller waited for ever."""
    await thread.run(lambda connection: None)
    loop = asyncio.get_running_loop()
    create_future = loop.create_future

    def close_first() -> asyncio.Future[object]:
        thread.close()
        return create_future()

    monkeypatch.setattr(loop, "create_future", close_first)
    step = thread.run(lambda connection: "done")
    with pytest.raises(JournalUnavailable, match="is ending"):
        step.send(None)


async def test_steps_that_meet_a_lock_wait_for_it_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waited by itself after all had waited together: 5 seconds for each, and the calls of all programs with
    them."""
    monkeypatch.setattr("codemode_server.storage.sqlite._BUSY_SECONDS", 0.05)
    waits: list[object] = []

    begin = Database.begin

    def counted(database: Database, *arguments: Any, **options: Any) -> AbstractContextManager[Connection]:
        waits.append(database)
        return begin(database, *arguments, **options)

    lost: list[Exception] = []
    with closing(DatabaseThread(tmp_path)) as thread, closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        await thread.run(lambda connection: None)
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(Database, "begin", counted)
        for _ in range(3):
            thread.post(lambda connection: None, on_error=lost.append)
        with pytest.raises(JournalUnavailable, match="locked"):
            await thread.run(lambda connection: None)
        assert (len(lost), len(waits)) == (3, 1)
        other.execute("ROLLBACK")

        def fail(connection: Connection) -> None:
            raise ValueError("no lock")

        thread.post(fail, on_error=lost.append)
        assert await thread.run(lambda connection: "done") == "done", "control: others are done without one that fails"
