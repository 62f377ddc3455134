"""Which steps the database's thread does in one transaction: each transaction is a switch of threads and a write.

Driven by steps on a real database; a savepoint shows whether two steps were in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from codemode_server.storage.database_thread import DatabaseThread


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[DatabaseThread]:
    thread = DatabaseThread(tmp_path)
    yield thread
    thread.close()


async def test_what_nobody_waits_for_is_done_in_the_transaction_of_the_next_step(thread: DatabaseThread) -> None:
    thread.post(lambda connection: connection.execute("SAVEPOINT first"), "lost")
    await thread.run(lambda connection: connection.execute("RELEASE first"))


async def test_what_nobody_waits_for_is_done_also_if_no_other_step_follows(thread: DatabaseThread) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    thread.post(lambda connection: loop.call_soon_threadsafe(done.set), "lost")
    with anyio.fail_after(20):
        await done.wait()


async def test_what_nobody_waits_for_is_done_before_the_thread_ends(tmp_path: Path) -> None:
    done: list[str] = []
    thread = DatabaseThread(tmp_path)
    thread.post(lambda connection: done.append("posted"), "lost")
    thread.close()
    assert done == ["posted"]
