"""What every audit promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from codemode_server.calls.audit import AuditEvent, AuditEventKind, read_execution
from codemode_server.domain.calls import CallStatus, Deny
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sqlite_audit import SqliteAudit

X1, X2 = ExecutionId("x1"), ExecutionId("x2")
LOCAL = Principal(PrincipalId("default"))
SOMEBODY = Principal(PrincipalId("somebody"))


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[SqliteAudit]:
    thread = DatabaseThread(tmp_path)
    yield SqliteAudit(thread)
    thread.close()


def started(execution_id: ExecutionId = X1, principal: Principal = LOCAL) -> AuditEvent:
    return AuditEvent(AuditEventKind.EXECUTION_STARTED, principal, "s1", execution_id, 1_000.25, payload="1 + 1")


def ended(seq: int) -> AuditEvent:
    return AuditEvent(
        AuditEventKind.CALL_ENDED,
        LOCAL,
        "s1",
        X1,
        2_000.0,
        seq=seq,
        server="github",
        tool="list-issues",
        decision="allow",
        reason="rule 1: é ✓",
        status="failed",
        milliseconds=3,
        payload='{"n": int}',
        error="it failed",
    )


async def test_rows_are_read_back_in_order_with_numbers_that_have_no_gap(audit: SqliteAudit) -> None:
    events = [started(), ended(1), ended(2)]
    for event in events:
        audit.append(event)
    rows = await audit.rows(LOCAL)
    assert [row.event for row in rows] == events
    assert [row.number for row in rows] == [1, 2, 3]


async def test_rows_are_read_in_pages_and_of_one_execution(audit: SqliteAudit) -> None:
    for event in (started(X1), started(X2), ended(1), ended(2)):
        audit.append(event)
    assert [row.number for row in await audit.rows(LOCAL, after=1, limit=2)] == [2, 3]
    assert [row.number for row in await audit.rows(LOCAL, execution_id=X1)] == [1, 3, 4]


async def test_a_principal_reads_nothing_of_another(audit: SqliteAudit) -> None:
    for event in (started(X1, LOCAL), started(X2, SOMEBODY)):
        audit.append(event)
    assert [row.event.execution_id for row in await audit.rows(LOCAL)] == [X1]
    assert await audit.rows(LOCAL, execution_id=X2) == []
    assert len(await audit.rows(SOMEBODY, execution_id=X2)) == 1, "the control"


async def test_each_digest_differs_though_the_events_are_the_same(audit: SqliteAudit) -> None:
    for _ in range(3):
        audit.append(started())
    assert len({row.digest for row in await audit.rows(LOCAL)}) == 3


async def test_an_execution_is_read_with_its_end_and_its_calls(audit: SqliteAudit) -> None:
    first, second = replace(started(X1), level="wasm"), replace(started(X2), at=2_000.0)
    decided = replace(ended(1), kind=AuditEventKind.CALL_DECIDED, status=None)
    end = replace(started(X1), kind=AuditEventKind.EXECUTION_ENDED, at=1_002.0, status="failed", error="it failed")
    end = replace(end, milliseconds=5.0)
    for event in (first, decided, ended(1), second, end, started(ExecutionId("x3"), SOMEBODY)):
        audit.append(event)
    running, found = await read_execution(audit, LOCAL, X2), await read_execution(audit, LOCAL, X1)
    assert running is not None
    assert found is not None
    assert (running[0].execution_id, running[0].status, running[0].calls) == (X2, ExecutionStatus.RUNNING, 0)
    failed = found[0]
    assert (failed.execution_id, failed.status, failed.calls) == (X1, ExecutionStatus.FAILED, 1)
    assert (failed.level, failed.code, failed.error, failed.ended_at) == ("wasm", "1 + 1", "it failed", 1_002.0)
    assert await read_execution(audit, LOCAL, ExecutionId("x3")) is None
    assert [(it.call.seq, it.outcome and it.outcome.status) for it in found[1]] == [(1, CallStatus.FAILED)]


async def test_a_call_has_the_decision_with_which_it_ended(audit: SqliteAudit) -> None:
    """A limit refuses after the rules have allowed it; a person allows what the rules ask about."""
    decided = replace(ended(1), kind=AuditEventKind.CALL_DECIDED, status=None, decision="allow", reason="rule 1")
    refused = replace(ended(1), status="refused", decision="deny", reason="its limit is reached")
    for event in (started(X1), decided, refused):
        audit.append(event)
    found = await read_execution(audit, LOCAL, X1)
    assert found is not None
    assert [it.decision for it in found[1]] == [Deny("its limit is reached")]


async def test_an_execution_with_more_rows_than_are_read_at_once_is_read_whole(audit: SqliteAudit) -> None:
    audit.append(started())
    for seq in range(1, 2_100):
        audit.append(replace(ended(seq), kind=AuditEventKind.CALL_DECIDED))
    found = await read_execution(audit, LOCAL, X1)
    assert found is not None
    assert [it.call.seq for it in found[1]] == list(range(1, 2_100))
