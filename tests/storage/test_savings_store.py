"""The tokens of exchanges on a real database: sums by day, server and execution of a principal, and how old ones go."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pytest

from codemode_server.domain import savings
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.domain.savings import Exchange, ServerTokens, TokenUsage
from codemode_server.features import provided
from codemode_server.features.savings.savings_store import SavingsStore, delete_old_rows, record_exchange
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread

OWNER, OTHER = Principal(PrincipalId("default")), Principal(PrincipalId("bob"))
DAY = 86_400.0
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()


@dataclass
class Store:
    thread: DatabaseThread
    database: Database

    @property
    def savings(self) -> SavingsStore:
        return SavingsStore(self.database)

    async def add(self, *exchanges: Exchange) -> None:
        for exchange in exchanges:
            record_exchange(self.thread, exchange)
        await self.thread.run(lambda connection: None)

    def delete_old(self, before: float) -> None:
        """As the upkeep does."""
        assert delete_old_rows in provided("delete_old_rows")
        while self.database.transact(partial(delete_old_rows, before)):
            pass


@pytest.fixture
def store(thread: DatabaseThread, database: Database) -> Store:
    return Store(thread, database)


def exchange(at: float = NOON, name: str | None = "x1", who: Principal = OWNER) -> Exchange:
    servers = {"github": ServerTokens(2, 20, 4_000), "slack": ServerTokens(1, 5, 100)}
    return Exchange(
        principal=who,
        at=at,
        tool="execute_code",
        execution_id=ExecutionId(name) if name else None,
        sent=50,
        returned=30,
        own_definitions=1_000,
        all_definitions=8_000,
        turns=2,
        servers=servers,
    )


ONE = TokenUsage(
    exchanges=1,
    executions=1,
    calls=3,
    turns=2,
    sent=50,
    returned=30,
    own_definitions=1_000,
    arguments=25,
    results=4_100,
    direct_definitions=16_000,
)


async def test_an_execution_has_the_sum_of_its_exchanges(store: Store) -> None:
    """One that waited for a person was answered more than once."""
    await store.add(exchange(), exchange(at=NOON + 60), exchange(name="x2"))
    found = await store.savings.execution(OWNER, ExecutionId("x1"))
    assert found is not None
    assert (found.exchanges, found.executions, found.sent, found.direct_definitions) == (2, 1, 100, 32_000)
    assert await store.savings.execution(OWNER, ExecutionId("x3")) is None


async def test_days_are_those_of_this_machine_and_days_and_executions_come_newest_first(store: Store) -> None:
    await store.add(exchange(), exchange(at=NOON + DAY, name="x2"), exchange(at=NOON + DAY, name=None))
    rows = await store.savings.days(OWNER, since=0, limit=10)
    day = datetime.fromtimestamp(NOON, UTC).astimezone()
    assert [row.usage.exchanges for row in rows] == [2, 1]
    assert (rows[1].name, rows[1].usage) == (f"{day:%Y-%m-%d}", ONE)
    executions = await store.savings.executions(OWNER, since=0, limit=10)
    assert [row.name for row in executions] == ["x2", "x1"], "an exchange without an execution is in no row"


async def test_a_day_on_which_the_clock_changes_has_its_23_hours(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        began = datetime(2026, 3, 28, 23, tzinfo=UTC).timestamp()
        hours = (-1, 0, 22, 23)  # of the day before, the first, the last, of the day after
        await store.add(*(exchange(at=began + hour * 3_600 + 1) for hour in hours))
        found = await store.savings.days(OWNER, since=0, limit=10)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [(it.name, it.usage.exchanges) for it in found] == [("2026-03-30", 1), ("2026-03-29", 2), ("2026-03-28", 1)]


async def test_upkeep_deletes_what_is_older_than_the_audit_may_be(store: Store) -> None:
    await store.add(exchange(at=time.time() - 3 * DAY, name="x1"), exchange(at=time.time(), name="x2"))
    store.delete_old(before=time.time() - 2 * DAY)
    assert [row.name for row in await store.savings.executions(OWNER, since=0, limit=10)] == ["x2"]
    assert [row.tokens.calls for row in await store.savings.servers(OWNER, since=0, limit=10)] == [2, 1]


async def test_upkeep_deletes_the_oldest_of_too_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "MAX_ROWS", 9)
    await store.add(*(exchange(at=NOON + number, name=f"x{number}") for number in range(50)))
    store.delete_old(before=0.0)
    rows = await store.savings.executions(OWNER, since=0, limit=10)
    assert [row.name for row in rows] == ["x49", "x48", "x47"]
