"""Searches in a record of 100,000 executions follow an index from the newest one on; nothing is sorted or scanned."""

from __future__ import annotations

import sqlite3

import pytest

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.history import HistoryQuery
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database
from codemode_server.storage.sqlite_history import _FLOOR, MAX_EXAMINED, SqliteHistory, statement

OWN = Principal(PrincipalId("default"))
COUNT = 100_000
QUERIES = {
    "all": HistoryQuery(),
    "text": HistoryQuery(text="needle"),
    "server and tool": HistoryQuery(server="github", tool="needle"),
    "status": HistoryQuery(status=ExecutionStatus.FAILED),
    "time": HistoryQuery(since=10.0, before=20.0),
    "everything": HistoryQuery("needle", "github", "needle", ExecutionStatus.FAILED, 10.0, 20.0),
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Half of the executions are in the audit alone; the oldest one calls a tool that no other calls."""
    made = Database(tmp_path_factory.mktemp("history") / "state")
    with made.begin() as connection:
        executions = range(COUNT)
        columns = "kind, principal, session_id, execution_id, at, seq, server, tool, decision, reason, status"
        rows = (
            (kind, "default", "s", f"x{number:06}", float(number), *more)
            for number in executions
            for kind, *more in (
                ("execution_started", None, None, None, None, None, None),
                ("call_decided", 1, "github", "needle" if number == 0 else "list_issues", "allow", "rule", None),
                ("execution_ended", None, None, None, None, None, "failed" if number % 10 == 0 else "succeeded"),
            )
        )
        connection.exec_driver_sql(
            f"INSERT INTO audit ({columns}, digest, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 1)", rows
        )
        connection.exec_driver_sql(
            "INSERT INTO journal_executions (execution_id, principal, session_id, is_ephemeral, status, started_at,"
            " ended_at) VALUES (?, 'default', 's', 0, ?, ?, ?)",
            (
                (f"x{number:06}", "failed" if number % 10 == 0 else "succeeded", float(number), float(number))
                for number in executions
                if number >= COUNT // 2
            ),
        )
    return made


@pytest.fixture
async def history(database: Database) -> SqliteHistory:
    return SqliteHistory(database)


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    names = ("principal", "before", "since", "limit", "server", "tool", "text", "start", "status", "examined")
    values = dict.fromkeys(names, 1)
    return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("name", QUERIES)
def test_a_search_follows_an_index(database: Database, name: str) -> None:
    with database.begin() as connection:
        for one in (statement(QUERIES[name]), _FLOOR):
            steps = plan(connection, one)
            assert not [it for it in steps if it.startswith("SCAN") or "TEMP B-TREE" in it], steps
            assert "INDEX audit_executions" in steps[0], steps


def test_a_sort_without_an_index_would_show_in_the_plan(database: Database) -> None:
    with database.begin() as connection:
        steps = plan(connection, "SELECT * FROM audit WHERE principal = :principal ORDER BY status")
    assert any("TEMP B-TREE" in it for it in steps), "control"


async def test_the_newest_are_found_first(history: SqliteHistory) -> None:
    page = await history.search(OWN, HistoryQuery(limit=3))
    assert [it.execution_id for it in page.executions] == ["x099999", "x099998", "x099997"]
    assert page.older_than == 99_997.0


async def test_a_rare_text_is_looked_for_in_so_many_executions_and_then_further_back(history: SqliteHistory) -> None:
    before: float | None = None
    searches = 0
    while True:
        searches += 1
        page = await history.search(OWN, HistoryQuery(text="needle", before=before))
        if page.executions:
            break
        assert page.older_than is not None
        assert (COUNT if before is None else before) - page.older_than <= MAX_EXAMINED + 1
        before = page.older_than
    assert [it.execution_id for it in page.executions] == ["x000000"]
    assert searches == 5, "each but the last one looked at 20,000 executions"
