"""Searches in a record of 100,000 executions follow an index from the newest one on; nothing is sorted or scanned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, insert, select

from codemode_server import storage
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.history import HistoryQuery
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database
from codemode_server.storage.history import FLOOR, MAX_EXAMINED, History, statement
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.tables import calls, executions
from tests.web.pages import State

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
    """The oldest execution calls a tool that no other calls."""
    made = Database(tmp_path_factory.mktemp("history") / "state")
    names = [f"x{number:06}" for number in range(COUNT)]
    begun = {"principal": "default", "session_id": "s", "is_ephemeral": False, "is_dry_run": False}
    called = {
        "seq": 1,
        "server": "github",
        "occurrence": 1,
        "decision": "allow",
        "reason": "rule",
        "status": "succeeded",
    }
    with made.begin() as connection:
        connection.execute(
            insert(executions),
            [
                {
                    **begun,
                    "execution_id": name,
                    "status": "failed" if number % 10 == 0 else "succeeded",
                    "started_at": float(number),
                    "ended_at": float(number),
                }
                for number, name in enumerate(names)
            ],
        )
        connection.execute(
            insert(calls),
            [
                {
                    **called,
                    "execution_id": name,
                    "tool": "needle" if number == 0 else "list_issues",
                    "started_at": number,
                }
                for number, name in enumerate(names)
            ],
        )
    return made


@pytest.fixture
async def history(database: Database, tmp_path: Path) -> History:
    return History(database, JournalCipher(tmp_path))


VALUES = {"of_principal": "default", "before": 1e9, "since": 0.0, "most": 50}


def plan(database: Database, statement: Select[Any]) -> list[str]:
    with database.begin(reads=True) as connection:
        compiled = statement.params(VALUES).compile(connection, compile_kwargs={"literal_binds": True})
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}")]


@pytest.mark.parametrize("name", QUERIES)
def test_a_search_follows_an_index(database: Database, name: str) -> None:
    for one in (statement(QUERIES[name]), FLOOR):
        steps = plan(database, one)
        assert not [it for it in steps if it.startswith("SCAN") or "TEMP B-TREE" in it], steps
        assert "INDEX executions_by_time" in steps[0], steps


def test_a_sort_without_an_index_would_show_in_the_plan(database: Database) -> None:
    sorted_by_status = select(executions).order_by(executions.c.status)
    assert any("TEMP B-TREE" in it for it in plan(database, sorted_by_status)), "control"


async def test_values_are_decrypted_up_to_a_bound_and_then_further_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.history, "MAX_DECRYPTED_BYTES", 10_000)
    state = State(tmp_path / "state")
    for number in range(30):
        text = "needle" if number == 0 else "other"
        await state.execution(f"x{number:02}", f"{text!r} * {'9' * 2_000}", at=1_700_000_000.0 + number)
    database = Database(state.folder)
    history = History(database, JournalCipher(state.folder))
    query, searches = HistoryQuery(text="'NEEDLE'", in_values=True), 0
    while not (page := await history.search(OWN, query)).executions:
        searches += 1
        assert page.older_than is not None
        query = replace(query, before=page.older_than)
    assert [it.execution_id for it in page.executions] == ["x00"]
    assert 3 <= searches <= 10, "each looked at some"
    state.thread.close()
    database.close()


async def test_the_newest_are_found_first(history: History) -> None:
    page = await history.search(OWN, HistoryQuery(limit=3))
    assert [it.execution_id for it in page.executions] == ["x099999", "x099998", "x099997"]
    assert page.older_than == 99_997.0


async def test_a_rare_text_is_looked_for_in_so_many_executions_and_then_further_back(history: History) -> None:
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
