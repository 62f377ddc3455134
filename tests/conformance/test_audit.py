"""What every audit promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, Deny, ToolCall
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel, Repeat
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.audit import Audit
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.ownership import LockedFolders
from tests.database import change, rows

X1, X2 = ExecutionId("x1"), ExecutionId("x2")
LOCAL = Principal(PrincipalId("default"))
SOMEBODY = Principal(PrincipalId("somebody"))
SEED = Repeat(bytes(range(32)))


class Record:
    """A journal and the audit of it, on a clock that goes on by a second whenever it is read."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000.0
        self.thread = DatabaseThread(folder)
        self.audit = Audit(self.thread)
        self.journal = Journal(self.thread, JournalCipher(folder), self.audit, clock=self.clock)

    def clock(self) -> float:
        self.now += 1.0
        return self.now

    async def begin(self, execution_id: ExecutionId = X1, principal: Principal = LOCAL) -> None:
        await self.journal.begin_execution(
            ExecutionRecord(
                execution_id,
                principal,
                Session("s1"),
                IsolationLevel.WASM,
                ExecutionStatus.RUNNING,
                self.clock(),
                "1 + secret",
            ),
            recorded_code="1 + ***",
        )

    async def call(self, seq: int, execution_id: ExecutionId = X1, *, ends: bool = True) -> None:
        call = ToolCall(execution_id, seq, "github", "list-issues", {"n": 1}, CallKey("github", "list-issues", "", 1))
        await self.journal.begin_call(call, Allow("rule 1"), is_read_only=True, recorded_arguments='{"n": int}')
        if ends:
            outcome = CallOutcome(CallStatus.REFUSED, 3.0, error="it failed")
            decision = Deny("its limit is reached")
            await self.journal.end_call(execution_id, seq, outcome, decision, recorded_error="it failed: é ✓")

    async def end(self, execution_id: ExecutionId = X1) -> None:
        await self.journal.end_execution(execution_id, ExecutionStatus.FAILED, error="ValueError", milliseconds=5.0)

    async def kinds(self, principal: Principal = LOCAL, execution_id: ExecutionId | None = None) -> list[str]:
        return [it.event.kind.value for it in await self.audit.rows(principal, execution_id=execution_id)]


@pytest.fixture
async def record(tmp_path: Path) -> AsyncIterator[Record]:
    record = Record(tmp_path)
    yield record
    record.thread.close()


def reviewed(principal: Principal = LOCAL) -> AuditEvent:
    return AuditEvent.by_person(AuditEventKind.TOOL_ACCEPTED, principal, server="github", tool="list\ud800\0")


async def test_an_execution_and_its_calls_are_rows_from_beginning_to_end(record: Record) -> None:
    await record.begin()
    await record.call(1)
    await record.call(2, ends=False)
    await record.end()
    assert await record.kinds() == [
        "execution_started",
        "call_decided",
        "call_ended",
        "call_decided",
        "execution_ended",
    ]
    began, _, refused, _, ended = [it.event for it in await record.audit.rows(LOCAL)]
    assert (began.execution_id, began.session_id, began.level, began.payload) == (X1, "s1", "wasm", "1 + ***")
    assert (refused.seq, refused.server, refused.tool) == (1, "github", "list-issues")
    assert (refused.decision, refused.reason, refused.status) == ("deny", "its limit is reached", "refused")
    assert (refused.milliseconds, refused.error) == (3.0, "it failed: é ✓")
    assert (ended.status, ended.milliseconds, ended.error) == ("failed", 5.0, "ValueError")


async def test_events_are_rows_with_their_number_and_a_digest_of_their_own(record: Record) -> None:
    for _ in range(3):
        record.audit.append(reviewed())
    rows = await record.audit.rows(LOCAL)
    assert [row.number for row in rows] == [1, 2, 3]
    assert {row.event.tool for row in rows} == {"list?\ufffd"}
    assert len({row.digest for row in rows}) == 3


async def test_the_newest_rows_are_given_and_those_of_one_execution(record: Record) -> None:
    for execution_id in (X1, X2):
        await record.begin(execution_id)
        await record.call(1, execution_id)
        await record.end(execution_id)
    assert await record.kinds(execution_id=X2) == ["execution_started", "call_decided", "call_ended", "execution_ended"]
    newest = await record.audit.rows(LOCAL, limit=3)
    assert [(it.event.execution_id, it.event.kind.value) for it in newest] == [
        (X2, "call_decided"),
        (X2, "call_ended"),
        (X2, "execution_ended"),
    ]
    since = newest[-1].event.at
    assert [it.event.kind.value for it in await record.audit.rows(LOCAL, since=since)] == ["execution_ended"]


async def test_a_principal_reads_nothing_of_another(record: Record) -> None:
    await record.begin(X1, LOCAL)
    await record.begin(X2, SOMEBODY)
    await record.call(1, X2)
    record.audit.append(reviewed(SOMEBODY))
    assert await record.kinds() == ["execution_started"]
    assert await record.kinds(execution_id=X2) == []
    assert len(await record.kinds(SOMEBODY)) == 4, "the control"


async def test_an_execution_that_is_resumed_ends_twice_and_fits(record: Record) -> None:
    await record.journal.begin_execution(
        running := ExecutionRecord(X1, LOCAL, Session("s1"), None, ExecutionStatus.RUNNING, 1.0), repeat=SEED
    )
    await record.call(1)
    await record.end()
    assert await record.journal.reopen_execution(running, Session("s2"))
    await record.call(2)
    await record.end()
    events = [it.event for it in await record.audit.rows(LOCAL) if it.number is not None]
    assert [it.kind.value for it in events] == ["execution_ended", "execution_resumed", "execution_ended"]
    assert await record.audit.verified() == ""


async def test_an_answer_that_comes_after_the_end_breaks_nothing(record: Record) -> None:
    await record.begin()
    await record.call(1, ends=False)
    await record.end()
    await record.journal.end_call(X1, 1, CallOutcome(CallStatus.SUCCEEDED, 9.0, 1, "late"), recorded_result="str")
    assert (await record.journal.calls(LOCAL, X1))[0].outcome is not None, "control"
    assert await record.audit.verified() == ""


async def test_it_is_verified_while_somebody_writes(record: Record, tmp_path: Path) -> None:
    """Otherwise a long audit would keep every product from recording, and so from calling."""
    await record.begin()
    await record.end()
    with closing(Database(tmp_path)) as database, database.begin():
        audit = Audit(record.thread, reader=database)
        with anyio.fail_after(60):
            assert await audit.verified() == ""
            assert (await audit.extent())[0] == 1
            assert await audit.holds((await audit.extent())[1])


async def test_its_queries_read_no_more_than_they_need(record: Record, tmp_path: Path) -> None:
    await record.begin()
    for which, index in (("execution_id = 'x1'", "events_by_execution"), ("chain = 'a'", "events_by_chain")):
        query = f"EXPLAIN QUERY PLAN SELECT * FROM events WHERE {which} ORDER BY number DESC LIMIT 1"
        ((*_, plan),) = rows(tmp_path, query)[:1]
        assert f"USING INDEX {index}" in plan


async def test_after_retention_it_still_fits_where_an_execution_was_resumed(record: Record, tmp_path: Path) -> None:
    """The event of its first end stays with it, in the middle of those that are old."""
    running = ExecutionRecord(X1, LOCAL, Session("s1"), None, ExecutionStatus.RUNNING, 1.0)
    await record.journal.begin_execution(running, repeat=SEED)
    await record.end()
    await record.begin(X2)
    await record.end(X2)
    between = record.now + 0.5
    assert await record.journal.reopen_execution(running, Session("s1"))
    await record.end()
    Upkeep(tmp_path, LockedFolders(tmp_path), Retention(1, 0), clock=lambda: 86_400 + between).pass_once()
    assert await record.kinds(execution_id=X2) == ["execution_ended"], "the execution is gone, its event is in a chain"
    assert await record.audit.verified() == ""
    Upkeep(tmp_path, LockedFolders(tmp_path), Retention(1, 0), clock=lambda: 86_400 + record.now).pass_once()
    assert await record.kinds() == [], "control"


async def test_an_execution_that_is_made_to_run_again_shows(record: Record, tmp_path: Path) -> None:
    await record.begin()
    await record.call(1)
    await record.end()
    change(tmp_path, "UPDATE executions SET ended_at = NULL, status = 'running', started_at = 1, owner = NULL")
    change(tmp_path, "UPDATE calls SET tool = 'other'")
    assert await record.audit.verified() == "execution x1"
    Upkeep(tmp_path, LockedFolders(tmp_path), Retention(0, 0)).pass_once()
    assert rows(tmp_path, "SELECT status FROM executions") == [("interrupted",)], "control"
    assert await record.audit.verified() == "execution x1", "also once it has ended anew"


async def test_an_event_is_read_back_with_all_that_it_says(record: Record) -> None:
    about = (LOCAL, "s1", X1, 1_000.25)
    said = {"seq": 3, "server": "github", "tool": "list", "reason": "elicitation", "status": "accept", "payload": "{}"}
    event = AuditEvent(AuditEventKind.INPUT_REQUESTED, *about, decision="allow", **said)  # type: ignore[arg-type]
    record.audit.append(event)
    assert [it.event for it in await record.audit.rows(LOCAL)] == [event]


async def test_an_old_execution_that_was_resumed_last_is_among_the_newest_rows(record: Record) -> None:
    await record.journal.begin_execution(
        old := ExecutionRecord(X1, LOCAL, Session("s1"), IsolationLevel.WASM, ExecutionStatus.RUNNING, 1.0), repeat=SEED
    )
    await record.end()
    await record.begin(X2)
    await record.end(X2)
    assert await record.journal.reopen_execution(old, Session("s1"))
    await record.call(1)
    await record.end()
    rows = [it.event for it in await record.audit.rows(LOCAL, limit=2)]
    assert [(it.execution_id, it.kind.value) for it in rows] == [(X1, "call_ended"), (X1, "execution_ended")]
    assert rows[1].milliseconds == 10.0


async def test_events_of_one_moment_are_in_the_order_in_which_they_were_written(record: Record) -> None:
    for tool in ("a", "b", "c"):
        record.audit.append(AuditEvent(AuditEventKind.TOOL_ACCEPTED, LOCAL, "", ExecutionId(""), 5.0, tool=tool))
    assert [it.event.tool for it in await record.audit.rows(LOCAL)] == ["a", "b", "c"]
