"""Replicas on one PostgreSQL database: which of them live, and what becomes of the executions of one that does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import select, update

from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, ToolCall
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel, Repeat
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.startup.stores import Stores
from codemode_server.storage.audit import Audit
from codemode_server.storage.database import Database, PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import settle_interrupted
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.leases import LEASE_SECONDS, Leases
from codemode_server.storage.tables import processes
from tests.storage.postgres import Cluster

OWN = Principal(PrincipalId("default"))
X1 = ExecutionId("x1")
LEASE = 60.0
"""In place of `LEASE_SECONDS`: nothing renews a lease here, and a busy machine may take seconds for a test."""


@dataclass
class Replica:
    address: PostgresAddress
    folder: Path

    def __post_init__(self) -> None:
        self.database, self.thread = Database(self.address), DatabaseThread(self.address)
        self.leases = Leases(self.database)
        self.renew()
        self.journal = Journal(self.thread, JournalCipher(self.folder), Audit(self.thread), self.leases)

    async def begin(self, *, days_ago: float = 0.0) -> ExecutionRecord:
        began = time.time() - days_ago * 86_400
        record = ExecutionRecord(X1, OWN, Session("s1"), IsolationLevel.WASM, ExecutionStatus.RUNNING, began)
        await self.journal.begin_execution(record, repeat=Repeat.new())
        return record

    async def call(self, seq: int = 1) -> None:
        call = ToolCall(X1, seq, "crm", "write", {}, CallKey("crm", "write", "", 1))
        await self.journal.begin_call(call, Allow("rule 1"), is_read_only=False)

    async def end_call(self, status: CallStatus, seq: int = 1) -> list[CallStatus]:
        """The states of all calls after that."""
        await self.journal.end_call(X1, seq, CallOutcome(status, 1.0))
        return [it.status for it in await self.journal.calls(OWN, X1)]

    async def end(self) -> None:
        await self.journal.end_execution(X1, ExecutionStatus.FAILED, error="lost", milliseconds=5.0)

    async def settle(self) -> str:
        """What becomes of the execution once this replica has looked after the others."""
        await anyio.to_thread.run_sync(settle_interrupted, self.database, self.leases, time.time())
        found = await self.journal.execution(OWN, X1)
        assert found is not None
        return found.status.value

    def renew(self) -> None:
        self.leases.renew()
        later = processes.c.seen_at + (LEASE - LEASE_SECONDS)
        renewed = update(processes).where(processes.c.name == self.leases.name()).values(seen_at=later)
        self.database.transact(lambda connection: connection.execute(renewed))

    def lapse(self) -> None:
        """Have the lease of this replica lapse, as if it had been stopped for a while."""
        old = update(processes).where(processes.c.name == self.leases.name()).values(seen_at=1.0)
        self.database.transact(lambda connection: connection.execute(old))

    def close(self) -> None:
        self.leases.close()
        self.thread.close()
        self.database.close()


@pytest.fixture
def replicas(postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Replica, Replica]]:
    monkeypatch.setattr("codemode_server.storage.leases.LEASE_SECONDS", LEASE)
    monkeypatch.setattr("codemode_server.storage.leases._SECOND_LOOK_SECONDS", 0)
    address = postgres.database()
    both = Replica(address, tmp_path), Replica(address, tmp_path)
    yield both
    for replica in both:
        replica.close()


async def going_on_at(other: Replica, one: Replica) -> None:
    """Begin an execution at `one`, whose lease lapses, and make it run again at the other replica."""
    record = await one.begin()
    one.lapse()
    await other.settle()
    assert await other.journal.reopen_execution(record, Session("s2"))


async def test_the_execution_of_a_replica_that_lives_goes_on(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    await one.begin()
    assert await other.settle() == "running"
    assert other.leases.others() == {one.leases.name()}
    await one.call()


async def test_that_of_one_whose_lease_has_lapsed_is_interrupted_and_sends_nothing_any_more(
    replicas: tuple[Replica, Replica],
) -> None:
    one, other = replicas
    await one.begin()
    await one.call(1)
    one.lapse()
    assert other.leases.others() == set()
    assert await other.settle() == "interrupted"
    with pytest.raises(JournalUnavailable, match=r"counts as interrupted.*execute_code\(resume='x1'\)"):
        await one.call(2)
    assert [it.call.seq for it in await other.journal.calls(OWN, X1)] == [1]


async def test_another_replica_goes_on_with_it_and_the_first_one_does_not(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    await going_on_at(other, one)
    one.renew()
    with pytest.raises(JournalUnavailable, match="counts as interrupted"):
        await one.call()
    await other.call()
    assert await one.settle() == "running", "control: it is the other's, which lives"


async def test_an_outcome_that_a_replica_writes_when_it_wakes_is_no_tampering(
    replicas: tuple[Replica, Replica],
) -> None:
    one, other = replicas
    await one.begin()
    await one.call()
    one.lapse()
    await one.journal.end_call(X1, 1, CallOutcome(CallStatus.SUCCEEDED, 1.0))  # queued: here it is stopped
    settle_interrupted(other.database, other.leases, time.time())
    assert [it.status for it in await one.journal.calls(OWN, X1)] == [CallStatus.STARTED]
    assert await Audit(other.thread).verified() == ""


async def test_a_replica_that_wakes_ends_no_execution_that_goes_on_elsewhere(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    await going_on_at(other, one)
    one.renew()
    await one.end()
    assert await other.settle() == "running"
    await other.call()
    await other.end()
    assert await one.settle() == "failed", "control: its own replica ends it"


async def test_a_replica_that_wakes_ends_no_call_that_was_made_elsewhere_meanwhile(
    replicas: tuple[Replica, Replica],
) -> None:
    """Such a call would count as never sent, and be sent once more when the program is resumed."""
    one, other = replicas
    await going_on_at(other, one)
    await other.call()
    assert await one.end_call(CallStatus.UNSENT) == ["started"]
    assert await other.end_call(CallStatus.SUCCEEDED) == ["succeeded"], "control: its own replica ends it"


async def test_a_replica_that_wakes_ends_its_call_of_an_execution_that_has_not_gone_on(
    replicas: tuple[Replica, Replica],
) -> None:
    one, other = replicas
    await one.begin()
    await one.call()
    one.lapse()
    await other.settle()
    assert await one.end_call(CallStatus.SUCCEEDED) == ["succeeded"]


async def test_one_that_was_stopped_in_a_transaction_keeps_the_others_from_nothing(
    replicas: tuple[Replica, Replica],
) -> None:
    """It holds a lock on its execution then, which whoever interrupts that waits for."""
    one, other = replicas
    await one.begin()
    became = ""
    with suppress(JournalUnavailable), one.database.begin() as stopped:  # its connection is lost
        one.leases.confirm(stopped, X1)
        one.lapse()
        began = time.monotonic()
        with suppress(JournalUnavailable):
            became = await other.settle()
        took = time.monotonic() - began
    assert became == "interrupted"
    assert took < 30, "three seconds on a machine with nothing else to do; without the bound it was a minute"


async def test_a_replica_that_was_stopped_sends_nothing_until_it_has_renewed_its_lease(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = replicas
    await one.begin()
    later = time.monotonic() + LEASE + 1
    monkeypatch.setattr("codemode_server.storage.leases.time.monotonic", lambda: later)
    with pytest.raises(JournalUnavailable, match="could not reach its database"):
        await one.call()
    one.renew()
    await one.call()


async def test_two_replicas_that_look_after_a_third_end_its_execution_once(
    replicas: tuple[Replica, Replica], tmp_path: Path
) -> None:
    third = Replica(replicas[0].address, tmp_path)
    await third.begin()
    third.close()
    async with anyio.create_task_group() as tasks:
        for replica in replicas:
            tasks.start_soon(replica.settle)
    ends = [it for it in await Audit(replicas[0].thread).rows(OWN) if it.number is not None]
    assert [(it.event.kind.value, it.event.status) for it in ends] == [("execution_ended", "interrupted")]
    assert await Audit(replicas[0].thread).verified() == ""


async def test_an_execution_that_began_days_ago_and_runs_again_goes_on(replicas: tuple[Replica, Replica]) -> None:
    """For instance since its question was answered after a weekend."""
    one, other = replicas
    await one.begin(days_ago=4)
    assert await other.settle() == "running"
    await one.call()


async def test_who_looks_after_an_outage_of_the_database_gives_the_others_time_to_renew(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also who has just started, or a command, which saw nothing of the outage."""
    one, other = replicas
    await one.begin()
    one.lapse()
    third = Replica(one.address, tmp_path)
    with monkeypatch.context() as waiting:
        waiting.setattr("codemode_server.storage.leases.time.sleep", lambda seconds: one.renew())
        assert await third.settle() == "running"
        assert await other.settle() == "running"
    one.lapse()
    assert await third.settle() == "interrupted", "control: it had that time"
    third.close()


def test_replicas_that_were_killed_without_an_execution_are_forgotten(
    replicas: tuple[Replica, Replica], tmp_path: Path
) -> None:
    one, _ = replicas
    one.lapse()
    third = Replica(one.address, tmp_path)
    names = third.database.transact(lambda connection: connection.execute(select(processes.c.name)).scalars().all())
    third.close()
    assert len(names) == 2
    assert one.leases.name() not in names


async def test_a_lease_is_renewed_while_something_else_waits_for_a_lock() -> None:
    renewals, is_enough = [0], threading.Event()

    class Slow:
        renewal_seconds = 0.01

        def renew(self) -> None:
            renewals[0] += 1
            if renewals[0] > 3:
                is_enough.set()

        def settle_dead(self, settle: object) -> None:
            is_enough.wait(50)

    stores: Any = SimpleNamespace(ownership=Slow(), database=SimpleNamespace(transact=lambda step: None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Stores.keep_lease, stores)
        assert await anyio.to_thread.run_sync(is_enough.wait, 40)
        tasks.cancel_scope.cancel()
