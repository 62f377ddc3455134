"""The journal and the audit on disk: encrypted, verifiable, bounded, and complete after the death of the process.

What every implementation promises is in `tests/conformance/`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, ToolCall
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel, Repeat
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.database import FILE_NAME, FILE_SUFFIXES
from codemode_server.storage.database_thread import DatabaseThread, Step, T
from codemode_server.storage.interrupted import Ownership
from codemode_server.storage.journal_values import KEY_NAME, JournalCipher
from codemode_server.storage.sqlite_audit import SqliteAudit, delete_audit_rows
from codemode_server.storage.sqlite_journal import SqliteJournal
from tests.database import change

LOCAL = Principal(PrincipalId("default"))
X1 = ExecutionId("x1")
DAY = 86_400.0
SEED = bytes(range(65, 97))


def execution(name: str = X1, code: str = "the program") -> ExecutionRecord:
    return ExecutionRecord(
        ExecutionId(name), LOCAL, Session("s1"), IsolationLevel.WASM, ExecutionStatus.RUNNING, time.time(), code
    )


def call(seq: int = 1, name: str = X1, **arguments: Any) -> ToolCall:
    key = CallKey("github", "list", "", 1)
    return ToolCall(ExecutionId(name), seq, "github", "list", arguments, key)


async def record(journal: SqliteJournal, name: str = X1, *, result: Any = "the result", ends: bool = True) -> None:
    """An execution with one call."""
    await journal.begin_execution(execution(name))
    await journal.begin_call(call(name=name, secret="the argument"), Allow("default"), is_read_only=True)
    await journal.end_call(ExecutionId(name), 1, CallOutcome(CallStatus.SUCCEEDED, 1.0, 1, result))
    if ends:
        await journal.end_execution(
            ExecutionId(name), ExecutionStatus.SUCCEEDED, error="the error", calls=1, milliseconds=1
        )


async def first_call(journal: SqliteJournal, name: str = X1) -> tuple[dict[str, Any], Any, str | None]:
    """Arguments, result, and why they can't be read."""
    (found,) = await journal.calls(LOCAL, ExecutionId(name))
    assert found.outcome is not None
    return found.call.arguments, found.outcome.result, found.unreadable


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[DatabaseThread]:
    thread = DatabaseThread(tmp_path)
    yield thread
    thread.close()


@pytest.fixture
def journal(tmp_path: Path, thread: DatabaseThread) -> SqliteJournal:
    return SqliteJournal(thread, JournalCipher(tmp_path))


class TestAtRest:
    async def test_no_file_holds_a_value_in_the_clear(
        self, tmp_path: Path, thread: DatabaseThread, journal: SqliteJournal
    ) -> None:
        await record(journal)
        await journal.begin_execution(execution("x2"), repeat=Repeat(SEED))
        held = b"".join((tmp_path / (FILE_NAME + suffix)).read_bytes() for suffix in FILE_SUFFIXES)
        assert b"github" in held, "the control: the name of the server is not encrypted"
        values = b"the argument", b"the result", b"the program", b"the error", SEED, SEED.hex().encode()
        assert not [text for text in values if text in held]
        assert (tmp_path / KEY_NAME).stat().st_mode & 0o777 == 0o600

    async def test_values_of_a_lost_key_are_unreadable_and_all_else_goes_on(
        self, tmp_path: Path, thread: DatabaseThread, journal: SqliteJournal
    ) -> None:
        await record(journal, "x1")
        (tmp_path / KEY_NAME).unlink()
        later = SqliteJournal(thread, JournalCipher(tmp_path))
        await record(later, "x2")
        arguments, result, unreadable = await first_call(later, "x1")
        assert (arguments, result) == ({}, None)
        assert unreadable is not None
        assert "the key that encrypted it is no longer in" in unreadable
        assert await first_call(later, "x2") == ({"secret": "the argument"}, "the result", None)

    async def test_a_damaged_key_stops_the_call_with_a_remedy(self, tmp_path: Path, journal: SqliteJournal) -> None:
        (tmp_path / KEY_NAME).write_bytes(b"short")
        with pytest.raises(JournalUnavailable, match=r"journal\.key is damaged\. Restore it from a backup, or move it"):
            await record(journal)

    async def test_a_value_that_was_put_into_another_row_is_unreadable(
        self, tmp_path: Path, journal: SqliteJournal
    ) -> None:
        await record(journal, "x1", result="one")
        await record(journal, "x2", result="two")
        change(
            tmp_path,
            "UPDATE journal_calls SET result = (SELECT result FROM journal_calls WHERE execution_id = 'x2')"
            " WHERE execution_id = 'x1'",
        )
        assert "was changed after it was recorded" in str((await first_call(journal, "x1"))[2])
        assert (await first_call(journal, "x2"))[1] == "two", "the control"


class TestTheAudit:
    @staticmethod
    def event(at: float = 0.0, payload: str = "p") -> AuditEvent:
        return AuditEvent(AuditEventKind.CALL_ENDED, LOCAL, "s1", X1, at, seq=1, payload=payload)

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE audit SET payload = 'q' WHERE number = 3",
            "UPDATE audit SET principal = 'somebody' WHERE number = 3",
            "UPDATE audit SET digest = 'd' WHERE number = 3",
            "DELETE FROM audit WHERE number = 2",
        ],
    )
    async def test_a_row_that_was_changed_or_deleted_breaks_the_chain_there(
        self, tmp_path: Path, thread: DatabaseThread, statement: str
    ) -> None:
        audit = SqliteAudit(thread)
        for _ in range(5):
            audit.append(self.event())
        assert await audit.verified() == (None, 0), "the control"
        change(tmp_path, statement)
        assert (await audit.verified())[0] == 3

    async def test_the_oldest_rows_go_after_their_days_and_the_rest_is_still_a_chain(
        self, tmp_path: Path, thread: DatabaseThread
    ) -> None:
        audit, now = SqliteAudit(thread), time.time()
        for number in range(50):
            audit.append(self.event(now - (50 - number) * DAY))
        await audit.rows(LOCAL)
        Upkeep(tmp_path, Ownership(tmp_path), Retention(9.5, 0)).pass_once()
        audit.append(self.event(now))
        assert [row.number for row in await audit.rows(LOCAL)] == list(range(42, 52))
        assert await audit.verified() == (None, 0)
        change(tmp_path, "DELETE FROM audit WHERE number = 42")
        assert (await audit.verified())[0] == 43, "nobody deletes the oldest row unnoticed"

    async def test_rows_that_retention_deletes_during_the_verification_break_nothing(self, tmp_path: Path) -> None:
        class ThreadWithRetention(DatabaseThread):
            async def run(self, step: Step[T], *, is_durable: bool = False) -> T:
                result = await super().run(step, is_durable=is_durable)
                with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as database:
                    deleted.append(delete_audit_rows(database, until=1_800, limit=2_000))
                return result

        deleted: list[int] = []
        thread = ThreadWithRetention(tmp_path)
        audit = SqliteAudit(thread)
        for _ in range(2_500):
            audit.append(self.event())
        try:
            assert await audit.verified() == (None, 0)
            assert deleted == [1_800, 0], "after the first 1,000 rows were verified"
            change(tmp_path, "UPDATE audit SET payload = 'q' WHERE number = 2000")
            assert (await audit.verified())[0] == 2_000, "the control"
        finally:
            thread.close()

    async def test_it_takes_no_more_than_its_bound_and_the_newest_rows_stay(
        self, tmp_path: Path, thread: DatabaseThread
    ) -> None:
        audit, now = SqliteAudit(thread), time.time()
        for _ in range(200):
            audit.append(self.event(now, payload="x" * 10_000))
        await audit.rows(LOCAL)
        Upkeep(tmp_path, Ownership(tmp_path), Retention(0, 2**20)).pass_once()
        left = await audit.rows(LOCAL)
        assert 80 < len(left) < 105
        assert left[-1].number == 200
        assert await audit.verified() == (None, 0)


async def test_a_call_that_is_begun_again_is_written_again(tmp_path: Path, journal: SqliteJournal) -> None:
    """SQLite makes durable only what a transaction has written; one of a call that reads was not."""
    await journal.begin_execution(execution())
    await journal.begin_call(call(), Allow("default"), is_read_only=True)
    log = tmp_path / f"{FILE_NAME}-wal"
    before = log.read_bytes()
    await journal.begin_call(call(), Allow("default"), is_read_only=False)
    assert log.read_bytes() != before
    (found,) = await journal.calls(LOCAL, X1)
    assert found.outcome is None


class TestTheJournalIsBounded:
    async def test_of_an_execution_that_takes_too_much_further_values_are_left_out(
        self, tmp_path: Path, thread: DatabaseThread
    ) -> None:
        journal = SqliteJournal(thread, JournalCipher(tmp_path), execution_bytes=100_000)
        await journal.begin_execution(execution())
        for seq in (1, 2):
            await journal.begin_call(call(seq), Allow("default"), is_read_only=True)
            outcome = CallOutcome(CallStatus.SUCCEEDED, 1.0, 60_000, "r" * 60_000)
            await journal.end_call(X1, seq, outcome)
        first, second = await journal.calls(LOCAL, X1)
        assert first.unreadable is None
        assert second.unreadable is not None
        assert "state.journal_mb is the bound" in second.unreadable
        assert second.outcome is not None
        assert (second.outcome.status, second.outcome.result) == (CallStatus.SUCCEEDED, None)


class TestWhereItCanNotBeUsed:
    async def test_an_outcome_that_is_not_written_stops_the_next_call_and_fails_the_end(
        self, tmp_path: Path, thread: DatabaseThread, journal: SqliteJournal
    ) -> None:
        await journal.begin_execution(execution())
        await journal.begin_call(call(1), Allow(""), is_read_only=True)
        trigger = "CREATE TRIGGER no_room BEFORE UPDATE ON journal_calls BEGIN SELECT RAISE(ABORT, 'no room'); END"
        await thread.run(lambda connection: connection.execute(trigger))
        await journal.end_call(X1, 1, CallOutcome(CallStatus.SUCCEEDED, 1.0))
        with pytest.raises(JournalUnavailable, match="no room"):
            await journal.begin_call(call(2), Allow(""), is_read_only=True)
        with pytest.raises(JournalUnavailable, match="no room"):
            await journal.end_execution(X1, ExecutionStatus.SUCCEEDED, error=None, calls=1, milliseconds=1.0)
        await thread.run(lambda connection: connection.execute("DROP TRIGGER no_room"))
        await record(journal, "x2")
        assert [it.call.seq for it in await journal.calls(LOCAL, X1)] == [1], "and the others go on"

    async def test_nothing_is_recorded_after_the_end(self, thread: DatabaseThread, journal: SqliteJournal) -> None:
        thread.close()
        with pytest.raises(JournalUnavailable, match="is ending"):
            await record(journal)
