"""Caches are written in the database's thread: another product's lock on the file doesn't hold up the event loop.

The lock is taken and given up on the event loop, so a write that waited there for it could never succeed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.catalog.observed import ToolKey
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.storage.database import FILE_NAME, Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.listing_store import ListingStore
from codemode_server.storage.tool_tables import SqliteObservedTypeStore, SqliteUsageStore
from codemode_server.upstreams.cache import CachedListing


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(tmp_path)) as database:
        yield database


async def put_listing(database: Database, thread: DatabaseThread) -> None:
    await ListingStore(database, thread).put("github", "f", CachedListing())


async def store_types(database: Database, thread: DatabaseThread) -> None:
    assert await SqliteObservedTypeStore(database, thread).update({ToolKey("s", "t", "d"): lambda known: "x"})


async def store_usage(database: Database, thread: DatabaseThread) -> None:
    assert await SqliteUsageStore(database, thread).update({ToolName("s", "t"): lambda known: Use(1.0, 1.0)})


@pytest.mark.parametrize(
    ("write", "table"), [(put_listing, "listings"), (store_types, "shapes"), (store_usage, "habits")]
)
async def test_a_write_of_a_cache_arrives_once_the_event_loop_has_given_up_the_lock(
    tmp_path: Path,
    database: Database,
    write: Callable[[Database, DatabaseThread], Coroutine[Any, Any, None]],
    table: str,
) -> None:
    with closing(DatabaseThread(tmp_path)) as thread, closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        await thread.run(lambda connection: None)  # it has opened the file
        other.execute("BEGIN EXCLUSIVE")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, database, thread)
            await anyio.wait_all_tasks_blocked()
            rows = other.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
            assert rows == (0,), "control: the lock is held"
            other.rollback()
    with database.use() as connection:
        assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (1,)


async def test_a_cache_that_fails_neither_fails_the_journal_nor_uses_up_the_reserve(tmp_path: Path) -> None:
    with closing(DatabaseThread(tmp_path)) as thread:
        await thread.run(lambda connection: connection.execute("CREATE TABLE journal (step)"))

        def fill(connection: sqlite3.Connection) -> None:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
            connection.execute("INSERT INTO journal VALUES (zeroblob(100000))")

        (tmp_path / "reserve").write_bytes(bytes(2**20))
        thread.post(fill, "the cache is lost", is_cache=True)
        await thread.run(lambda connection: connection.execute("INSERT INTO journal VALUES (1)"))
        await thread.run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000"), is_cache=True)
        assert (tmp_path / "reserve").stat().st_size == 2**20
        assert await thread.run(lambda connection: connection.execute("SELECT step FROM journal").fetchall()) == [(1,)]
