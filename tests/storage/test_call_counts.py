"""Processes that count calls for the same limits at the same time never let more through than a limit says, and rows
that no limit needs any more are deleted.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select

from codemode_server.domain.call_limits import CallLimit
from codemode_server.domain.ids import PrincipalId
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.call_counts import count, reached
from codemode_server.storage.database import Database, DatabasePlace
from codemode_server.storage.ownership import LockedFolders
from codemode_server.storage.tables import calls, counted_calls
from tests.storage.at_once import STARTS, run_at_once

LIMITS, AT_ONCE, MOST = 6, 16, 5
CALLS = (
    f"LIMITS, AT_ONCE, MOST = {LIMITS}, {AT_ONCE}, {MOST}"
    + """
import asyncio, sys, tempfile
from pathlib import Path
from codemode_server.domain.call_limits import CallLimit
from codemode_server.domain.calls import Allow, CallKey, ToolCall
from codemode_server.storage.audit import Audit
from codemode_server.storage.database import PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher

place, name = sys.argv[1:]
thread = DatabaseThread(PostgresAddress(place) if "://" in place else Path(place))
asyncio.run(thread.run(lambda connection: None))
"""
    + STARTS
    + """
async def call(journal, number, seq):
    limit = CallLimit("me", f"limit {number}", MOST, 3600.0, "it is reached")
    made = ToolCall(f"{name}{number}", seq, "mail", "send", {}, CallKey("mail", "send", "", seq))
    await (await journal.submit_call(made, Allow("rule 1"), is_read_only=seq % 2 == 0, limits=[limit]))

async def main(folder):
    journal = Journal(thread, JournalCipher(folder), Audit(thread))
    for number in range(LIMITS):
        await asyncio.gather(*(call(journal, number, seq) for seq in range(AT_ONCE)))

with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder)))
    thread.close()
"""
)


@pytest.mark.parametrize("processes", ["a", "abc"], ids=["one process", "three"])
def test_no_more_calls_are_let_through_than_a_limit_says(place: DatabasePlace, processes: str) -> None:
    with closing(Database(place)) as database:
        run_at_once(CALLS, place if isinstance(place, Path) else place.url, *processes)
        with database.begin(reads=True) as connection:
            decided = select(calls.c.decision, func.count()).group_by(calls.c.decision)
            found = [tuple(it) for it in connection.execute(decided.order_by(calls.c.decision))]
            counted = connection.execute(select(func.count()).select_from(counted_calls)).scalar()
    made = LIMITS * AT_ONCE * len(processes)
    assert (found, counted) == ([("allow", LIMITS * MOST), ("deny", made - LIMITS * MOST)], LIMITS * MOST)


def test_the_upkeep_leaves_what_counts_and_the_newest_of_each_limit(place: DatabasePlace, tmp_path: Path) -> None:
    """A number is not given again to a process that has seen the deleted ones."""

    def limit(name: str, seconds: float) -> CallLimit:
        return CallLimit(PrincipalId("me"), name, 2, seconds, "reached")

    minute, hour = limit("minute", 60.0), limit("hour", 3_600.0)
    with closing(Database(place)) as database:
        for _ in range(2):
            assert database.transact(lambda connection: count(connection, [minute, hour], 1_000.0)) is None
        for now in (1_030.0, 1_070.0):
            Upkeep(place, LockedFolders(tmp_path), Retention(0, 0), clock=iter([now] * 9).__next__).pass_once()
            with database.begin(reads=True) as connection:
                rows = connection.execute(select(counted_calls.c.counts_until, counted_calls.c.number)).all()
            expected = {(1_060.0, 1), (1_060.0, 2)} if now < 1_060 else {(1_060.0, 2)}
            assert {tuple(it) for it in rows} == expected | {(4_600.0, 1), (4_600.0, 2)}
        with database.begin(reads=True) as connection:
            assert reached(connection, [minute], 1_070.0) is None
            denied = reached(connection, [minute, hour], 1_070.0)
    assert denied is not None
    assert denied.reason == "reached; the next call is possible in 3530 s"
