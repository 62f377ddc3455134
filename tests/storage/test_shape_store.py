"""What was observed of tools, on disk: several products add to it and none loses what another wrote.

Real SQLite and real processes; the texts are the test's own, since the store does not understand them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from codemode_server.catalog.observed import ToolKey
from codemode_server.storage.database import FILE_NAME, Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tool_tables import MAX_TOOLS, SqliteObservedTypeStore
from tests.storage.at_once import STARTS, run_at_once

KEY = ToolKey("github", "list-issues", "d1")

COUNTS = f"""
import asyncio
import sys
from pathlib import Path
from codemode_server.catalog.observed import ToolKey
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tool_tables import SqliteObservedTypeStore
folder = Path(sys.argv[1])
store = SqliteObservedTypeStore(Database(folder), DatabaseThread(folder))
{STARTS}
async def count():
    for number in range(100):
        one_more = lambda known: str(int(known or 0) + 1)
        assert await store.update({{ToolKey("s", "shared", "d"): one_more, ToolKey("s", sys.argv[2], "d"): one_more}})
asyncio.run(count())
"""


def store_in(folder: Path) -> SqliteObservedTypeStore:
    return SqliteObservedTypeStore(Database(folder), DatabaseThread(folder))


def test_what_two_processes_add_at_once_is_all_there(tmp_path: Path) -> None:
    Database(tmp_path).close()
    run_at_once(COUNTS, tmp_path, "one", "two")
    kept = store_in(tmp_path).load()
    assert {key.tool: text for key, text in kept.items()} == {"shared": "200", "one": "100", "two": "100"}


async def test_a_change_that_breaks_leaves_everything_as_it_was(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert await store.update({KEY: lambda known: "before"})

    def breaks(known: str | None) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store.update({KEY: lambda known: "after", KEY._replace(tool="other"): breaks})
    assert store.load() == {KEY: "before"}
    assert await store.update({KEY: lambda known: f"{known} and after"}), "the lock is free again"
    assert store.load() == {KEY: "before and after"}


async def test_a_tool_with_other_schemas_is_another(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    await store.update({KEY: lambda known: "old"})
    await store.update({KEY._replace(schemas="d2"): lambda known: str(known)})
    assert store.load() == {KEY: "old", KEY._replace(schemas="d2"): "None"}


async def test_those_that_were_not_written_to_for_the_longest_are_forgotten(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for batch in range(3):
        keys = [KEY._replace(tool=f"t{number}") for number in range(batch * 900, batch * 900 + 900)]
        await store.update({key: lambda known: "x" for key in keys})
    kept = {key.tool for key in store.load()}
    assert len(kept) == MAX_TOOLS
    assert {f"t{number}" for number in range(900, 2_700)} <= kept


async def test_what_is_no_text_is_not_loaded(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    await store.update({KEY: lambda known: "x"})
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE shapes SET observed = x'00ff'")
    assert store.load() == {}
    assert await store.update({KEY: lambda known: str(known)})
    assert store.load() == {KEY: "None"}


async def test_a_record_that_can_not_be_used_is_logged_and_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, thread = Database(tmp_path), DatabaseThread(tmp_path)
    store = SqliteObservedTypeStore(database, thread)
    database.close()
    thread.close()
    assert store.load() == {}
    assert "what earlier calls returned can't be read" in caplog.text
    other = SqliteObservedTypeStore(database, thread)
    assert await other.update({KEY: lambda known: "x"}) is False
    assert "what earlier calls returned can't be stored for next time" in caplog.text
