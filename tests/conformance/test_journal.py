"""What a journal promises, run over the one on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.calls import (
    Allow,
    Ask,
    CallKey,
    CallOutcome,
    CallStatus,
    Capture,
    Decision,
    Deny,
    Recorded,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, IsolationLevel, Repeat
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.storage.audit import Audit
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher

X1 = ExecutionId("x1")
LOCAL = Principal(PrincipalId("default"))
SOMEBODY = Principal(PrincipalId("somebody"))
ALLOW = Allow("default")
SEED = bytes(range(32))
NOW = 1_000_000.0
SUCCEEDED = CallOutcome(CallStatus.SUCCEEDED, 12.5, 9, {"id": 7}, encoding="blocks")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    thread = DatabaseThread(tmp_path)
    yield Journal(thread, JournalCipher(tmp_path), Audit(thread), clock=lambda: NOW)
    thread.close()


def execution(name: str = X1, principal: Principal = LOCAL, started_at: float = NOW) -> ExecutionRecord:
    return ExecutionRecord(
        ExecutionId(name),
        principal,
        Session("s1", is_ephemeral=True),
        IsolationLevel.WASM,
        ExecutionStatus.RUNNING,
        started_at,
        "print('\ud800 ✓')",
    )


def call(seq: int = 1, arguments: dict[str, Any] | None = None, name: str = X1) -> ToolCall:
    arguments = {"owner": "a", "labels": ["\ud83d", "é", 1.5, None]} if arguments is None else arguments
    key = CallKey("github", "list-issues", arguments_digest(arguments), seq)
    return ToolCall(ExecutionId(name), seq, "github", "list-issues", arguments, key)


async def begin(journal: Journal, asked: ToolCall, decision: Decision = ALLOW) -> None:
    await journal.begin_call(asked, decision, is_read_only=False)


async def test_an_execution_that_ended_has_its_status_time_error_and_counts(journal: Journal) -> None:
    await journal.begin_execution(execution())
    await begin(journal, call())
    await journal.end_execution(X1, ExecutionStatus.FAILED, error="ValueError: é", milliseconds=40.5)
    found = await journal.execution(LOCAL, X1)
    assert found is not None
    assert (found.status, found.ended_at, found.error) == (ExecutionStatus.FAILED, NOW, "ValueError: é")
    assert (found.calls, found.milliseconds, found.code) == (1, 40.5, "print('\ud800 ✓')")


async def test_a_dry_run_is_read_back_as_one_and_is_applied_by_one_execution(journal: Journal) -> None:
    dry_run = replace(execution(), is_dry_run=True)
    await journal.begin_execution(dry_run)
    assert await journal.execution(LOCAL, X1) == dry_run
    assert await journal.applied_by(LOCAL, X1) is None
    applying = replace(execution("x2"), applies=X1)
    await journal.begin_execution(applying)
    assert await journal.applied_by(LOCAL, X1) == applying
    assert await journal.applied_by(SOMEBODY, X1) is None
    with pytest.raises(MetaToolError, match="x2"):
        await journal.begin_execution(replace(execution("x3"), applies=X1))
    assert await journal.execution(LOCAL, ExecutionId("x3")) is None


async def test_an_execution_ends_once(journal: Journal) -> None:
    await journal.begin_execution(execution())
    await journal.end_execution(X1, ExecutionStatus.SUCCEEDED, error=None, milliseconds=1.0)
    await journal.end_execution(X1, ExecutionStatus.FAILED, error="late", milliseconds=2.0)
    found = await journal.execution(LOCAL, X1)
    assert found is not None
    assert (found.status, found.error, found.calls) == (ExecutionStatus.SUCCEEDED, None, 0)


async def test_a_call_that_began_and_did_not_end_has_no_outcome(journal: Journal) -> None:
    await journal.begin_execution(execution())
    await begin(journal, call())
    assert await journal.calls(LOCAL, X1) == [CallRecord(call(), ALLOW, NOW)]


async def test_a_call_is_read_back_with_complete_arguments_and_result_in_the_order_of_the_numbers(
    journal: Journal,
) -> None:
    await journal.begin_execution(execution())
    for seq in (2, 1):
        await begin(journal, call(seq))
    failed = CallOutcome(CallStatus.FAILED, 3.0, error="no such repository: \ud800")
    await journal.end_call(X1, 1, SUCCEEDED)
    await journal.end_call(X1, 2, failed)
    assert await journal.calls(LOCAL, X1) == [
        CallRecord(call(1), ALLOW, NOW, SUCCEEDED, ended_at=NOW),
        CallRecord(call(2), ALLOW, NOW, failed, ended_at=NOW),
    ]


@pytest.mark.parametrize(
    "decision",
    [
        Allow("rule 1"),
        Deny("rule 2"),
        Ask("rule 3"),
        Recorded(SUCCEEDED, "the same call of x0"),
        Capture("dict[str, int]", "dry run", "rule 4", is_reading=True),
    ],
    ids=lambda decision: type(decision).__name__,
)
async def test_every_decision_is_read_back(journal: Journal, decision: Decision) -> None:
    await journal.begin_execution(execution())
    await begin(journal, call(), decision)
    (found,) = await journal.calls(LOCAL, X1)
    assert found.decision == decision
    (listed,) = await journal.calls(LOCAL, X1, values="none")
    assert (type(listed.decision), listed.decision.reason) == (type(decision), decision.reason)


async def test_a_result_of_none_is_told_from_no_result(journal: Journal) -> None:
    await journal.begin_execution(execution())
    await begin(journal, call())
    await journal.end_call(X1, 1, CallOutcome(CallStatus.SUCCEEDED, 1.0, 4, None))
    (found,) = await journal.calls(LOCAL, X1)
    assert found.outcome == CallOutcome(CallStatus.SUCCEEDED, 1.0, 4, None)
    assert found.unreadable is None


async def test_a_call_ends_once(journal: Journal) -> None:
    await journal.begin_execution(execution())
    await begin(journal, call())
    await journal.end_call(X1, 1, SUCCEEDED)
    await journal.end_call(X1, 1, CallOutcome(CallStatus.CANCELLED, 99.0, error="late"))
    (found,) = await journal.calls(LOCAL, X1)
    assert found.outcome == SUCCEEDED


async def test_a_call_that_was_decided_again_has_its_last_decision(journal: Journal) -> None:
    await journal.begin_execution(execution())
    await begin(journal, call())
    await journal.end_call(X1, 1, SUCCEEDED, Recorded(SUCCEEDED, "it arrived"))
    (found,) = await journal.calls(LOCAL, X1)
    assert (found.decision, found.outcome) == (Recorded(SUCCEEDED, "it arrived"), SUCCEEDED)


async def test_a_principal_reads_nothing_of_another(journal: Journal) -> None:
    await journal.begin_execution(execution("x1", LOCAL))
    await journal.begin_execution(execution("x2", SOMEBODY))
    await begin(journal, call(name="x2"))
    assert await journal.execution(LOCAL, ExecutionId("x2")) is None
    assert await journal.calls(LOCAL, ExecutionId("x2")) == []
    assert len(await journal.calls(SOMEBODY, ExecutionId("x2"))) == 1, "the control"


async def test_calls_at_once_are_all_recorded(journal: Journal) -> None:
    await journal.begin_execution(execution())

    async def one(seq: int) -> None:
        await begin(journal, call(seq))
        await journal.end_call(X1, seq, SUCCEEDED)

    async with anyio.create_task_group() as tasks:
        for seq in range(1, 101):
            tasks.start_soon(one, seq)
    found = await journal.calls(LOCAL, X1)
    assert [(it.call.seq, it.outcome) for it in found] == [(seq, SUCCEEDED) for seq in range(1, 101)]


@pytest.mark.parametrize("text", ["short", "long" * 100_000], ids=["small", "large"])
async def test_what_a_cancelled_caller_recorded_is_there_once(journal: Journal, text: str) -> None:
    """A program that ends while a call is recorded: what it asked for is written all the same."""
    await journal.begin_execution(execution())
    await begin(journal, call(1))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await begin(journal, call(2, {"text": text}))
    await begin(journal, call(2, {"text": "not this"}))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.end_call(X1, 1, CallOutcome(CallStatus.SUCCEEDED, 1.0, 1, text))
    first, second = await journal.calls(LOCAL, X1)
    assert first.outcome is not None
    assert first.outcome.result == text
    assert second.call.arguments == {"text": text}


async def test_what_had_no_seed_and_what_belongs_to_another_principal_is_not_repeated(journal: Journal) -> None:
    await journal.begin_execution(execution("x1"))
    await journal.begin_execution(execution("x2", SOMEBODY), repeat=Repeat(SEED))
    assert await journal.repeat(LOCAL, X1) is None
    assert await journal.repeat(LOCAL, ExecutionId("x2")) is None
    assert await journal.repeat(LOCAL, ExecutionId("x3")) is None
    assert await journal.repeat(SOMEBODY, ExecutionId("x2")) == Repeat(SEED), "the control"
