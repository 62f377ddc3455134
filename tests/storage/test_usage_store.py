"""How much tools are used, on disk: several products add to it and none loses what another wrote.

Real SQLite and real processes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from codemode_server.search.usage_store import ToolName, Use
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tool_tables import MAX_TOOLS, SqliteUsageStore
from tests.storage.at_once import STARTS, run_at_once

NAME = ToolName("github", "list_issues")

COUNTS = f"""
import asyncio
import sys
from pathlib import Path
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tool_tables import SqliteUsageStore
folder = Path(sys.argv[1])
store = SqliteUsageStore(Database(folder), DatabaseThread(folder))
{STARTS}
async def count():
    for number in range(100):
        one_more = lambda known: Use((known.uses if known else 0) + 1.0, 5.0)
        assert await store.update({{ToolName("s", "shared"): one_more, ToolName("s", sys.argv[2]): one_more}})
asyncio.run(count())
"""


def store_in(folder: Path) -> SqliteUsageStore:
    return SqliteUsageStore(Database(folder), DatabaseThread(folder))


def used_once(known: Use | None, at: int) -> Use:
    return Use(1.0, float(at))


def test_what_two_processes_add_at_once_is_all_there(tmp_path: Path) -> None:
    Database(tmp_path).close()
    run_at_once(COUNTS, tmp_path, "one", "two")
    kept = store_in(tmp_path).load()
    assert {name.tool: use.uses for name, use in kept.items()} == {"shared": 200, "one": 100, "two": 100}


async def test_a_change_that_breaks_leaves_everything_as_it_was(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert await store.update({NAME: lambda known: Use(1.0, 1.0)})

    def breaks(known: Use | None) -> Use:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store.update({NAME: lambda known: Use(2.0, 2.0), NAME._replace(tool="other"): breaks})
    assert store.load() == {NAME: Use(1.0, 1.0)}
    assert await store.update({NAME: lambda known: Use((known or Use(0, 0)).uses + 2, 3.0)}), "the lock is free again"
    assert store.load() == {NAME: Use(3.0, 3.0)}


async def test_those_that_were_not_called_for_the_longest_are_forgotten(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for batch in range(3):
        numbers = range(batch * 900, batch * 900 + 900)
        await store.update({NAME._replace(tool=f"t{number}"): partial(used_once, at=number) for number in numbers})
    kept = [name.tool for name in store.load()]
    assert kept == [f"t{number}" for number in range(700, 2_700)]
    assert len(kept) == MAX_TOOLS


async def test_a_record_that_can_not_be_used_is_logged_once_and_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database, thread = Database(tmp_path), DatabaseThread(tmp_path)
    store = SqliteUsageStore(database, thread)
    database.close()
    thread.close()
    assert store.load() == {}
    assert await store.update({NAME: lambda known: Use(1.0, 1.0)}) is False
    assert await store.update({NAME: lambda known: Use(1.0, 1.0)}) is False
    store.forget()
    assert [record.message for record in caplog.records if "which tools are used" in record.message][1:] == []
    assert "can't be read" in caplog.text
