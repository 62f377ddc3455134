"""The journal and the audit on disk: encrypted, verifiable, bounded, and complete after the death of the process.

What every implementation promises is in `tests/conformance/`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from codemode_server.domain.calls import Allow, CallKey, CallOutcome, CallStatus, ToolCall
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel, Repeat
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session
from codemode_server.storage.audit import Audit
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import KEY_NAME, JournalCipher
from codemode_server.storage.sqlite import FILE_NAME, FILE_SUFFIXES
from codemode_server.storage.tables import executions
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


async def record(journal: Journal, name: str = X1, *, result: Any = "the result", ends: bool = True) -> None:
    """An execution with one call."""
    await journal.begin_execution(execution(name))
    await journal.begin_call(call(name=name, secret="the argument"), Allow("default"), is_read_only=True)
    await journal.end_call(ExecutionId(name), 1, CallOutcome(CallStatus.SUCCEEDED, 1.0, 1, result))
    if ends:
        await journal.end_execution(ExecutionId(name), ExecutionStatus.SUCCEEDED, error="the error", milliseconds=1)


async def first_call(journal: Journal, name: str = X1) -> tuple[dict[str, Any], Any, str | None]:
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
def journal(tmp_path: Path, thread: DatabaseThread) -> Journal:
    return Journal(thread, JournalCipher(tmp_path), Audit(thread))


class TestAtRest:
    async def test_no_file_holds_a_value_in_the_clear(
        self, tmp_path: Path, thread: DatabaseThread, journal: Journal
    ) -> None:
        await record(journal)
        await journal.begin_execution(execution("x2"), repeat=Repeat(SEED))
        held = b"".join((tmp_path / (FILE_NAME + suffix)).read_bytes() for suffix in FILE_SUFFIXES)
        assert b"github" in held, "the control: the name of the server is not encrypted"
        values = b"the argument", b"the result", b"the program", SEED, SEED.hex().encode()
        assert not [text for text in values if text in held]
        assert (tmp_path / KEY_NAME).stat().st_mode & 0o777 == 0o600

    async def test_values_of_a_lost_key_are_unreadable_and_all_else_goes_on(
        self, tmp_path: Path, thread: DatabaseThread, journal: Journal
    ) -> None:
        await record(journal, "x1")
        (tmp_path / KEY_NAME).unlink()
        later = Journal(thread, JournalCipher(tmp_path), Audit(thread))
        await record(later, "x2")
        arguments, result, unreadable = await first_call(later, "x1")
        assert (arguments, result) == ({}, None)
        assert unreadable is not None
        assert "the key that encrypted it is no longer in" in unreadable
        assert await first_call(later, "x2") == ({"secret": "the argument"}, "the result", None)

    async def test_a_damaged_key_stops_the_call_with_a_remedy(self, tmp_path: Path, journal: Journal) -> None:
        (tmp_path / KEY_NAME).write_bytes(b"short")
        with pytest.raises(JournalUnavailable, match=r"journal\.key is damaged\. Restore it from a backup, or move it"):
            await record(journal)

    async def test_a_value_that_was_put_into_another_row_is_unreadable(self, tmp_path: Path, journal: Journal) -> None:
        await record(journal, "x1", result="one")
        await record(journal, "x2", result="two")
        change(
            tmp_path,
            "UPDATE calls SET result = (SELECT result FROM calls WHERE execution_id = 'x2') WHERE execution_id = 'x1'",
        )
        assert "was changed after it was recorded" in str((await first_call(journal, "x1"))[2])
        assert (await first_call(journal, "x2"))[1] == "two", "the control"


async def test_a_call_that_is_begun_again_is_written_again(tmp_path: Path, journal: Journal) -> None:
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
        journal = Journal(thread, JournalCipher(tmp_path), Audit(thread), execution_bytes=100_000)
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
        self, tmp_path: Path, thread: DatabaseThread, journal: Journal
    ) -> None:
        await journal.begin_execution(execution())
        await journal.begin_call(call(1), Allow(""), is_read_only=True)
        trigger = "CREATE TRIGGER no_room BEFORE UPDATE ON calls BEGIN SELECT RAISE(ABORT, 'no room'); END"
        await thread.run(lambda connection: connection.exec_driver_sql(trigger))
        await journal.end_call(X1, 1, CallOutcome(CallStatus.SUCCEEDED, 1.0))
        with pytest.raises(JournalUnavailable, match="no room"):
            await journal.begin_call(call(2), Allow(""), is_read_only=True)
        with pytest.raises(JournalUnavailable, match="no room"):
            await journal.end_execution(X1, ExecutionStatus.SUCCEEDED, error=None, milliseconds=1.0)
        await thread.run(lambda connection: connection.exec_driver_sql("DROP TRIGGER no_room"))
        await record(journal, "x2")
        assert [it.call.seq for it in await journal.calls(LOCAL, X1)] == [1], "and the others go on"

    @pytest.mark.parametrize("is_awaited", [True, False])
    async def test_an_end_that_is_not_written_is_written_with_what_comes_next(
        self, thread: DatabaseThread, journal: Journal, *, is_awaited: bool
    ) -> None:
        """Otherwise it would be shown as running until the product ends, and could not be resumed."""
        began = execution()
        await journal.begin_execution(began, repeat=Repeat(SEED))
        await journal.begin_execution(execution("x2"))
        trigger = "CREATE TRIGGER no_room BEFORE UPDATE ON executions BEGIN SELECT RAISE(ABORT, 'no room'); END"
        await thread.run(lambda connection: connection.exec_driver_sql(trigger))
        for name, status in (("x1", ExecutionStatus.FAILED), ("x2", ExecutionStatus.SUCCEEDED)):
            with pytest.raises(JournalUnavailable, match="no room") if is_awaited else nullcontext():
                await journal.end_execution(
                    ExecutionId(name), status, error="the error", milliseconds=1.0, is_awaited=is_awaited
                )
        found = [await journal.execution(LOCAL, ExecutionId(it)) for it in ("x1", "x2")]
        assert [it and it.status.value for it in found] == ["running", "running"], "control"
        await thread.run(lambda connection: connection.exec_driver_sql("DROP TRIGGER no_room"))
        assert await journal.reopen_execution(began, Session("s2"))
        await journal.end_execution(X1, ExecutionStatus.SUCCEEDED, error=None, milliseconds=1.0)
        found = [await journal.execution(LOCAL, ExecutionId(it)) for it in ("x1", "x2")]
        # What was to be awaited has failed for its host, too.
        assert [it and it.status.value for it in found] == [
            "succeeded",
            "sandbox_failed" if is_awaited else "succeeded",
        ]

    async def test_a_program_whose_sources_are_not_written_may_have_passed_them_on_until_somebody_has_looked(
        self, thread: DatabaseThread, journal: Journal
    ) -> None:
        await journal.begin_execution(execution())
        journal.note_unwritten(X1, JournalUnavailable("no room"))
        await journal.end_execution(X1, ExecutionStatus.SUCCEEDED, error=None, milliseconds=1.0, is_awaited=False)
        await journal.begin_execution(execution("x2"))
        await journal.begin_execution(execution("x3"))  # what is late is written before it
        ended = await thread.rows(select(executions.c.status, executions.c.holder).where(executions.c.ended_at > 0))
        assert [tuple(it) for it in ended] == [("succeeded", "s1")]

    async def test_nothing_is_recorded_after_the_end(self, thread: DatabaseThread, journal: Journal) -> None:
        thread.close()
        with pytest.raises(JournalUnavailable, match="is ending"):
            await record(journal)


async def test_a_step_that_is_done_again_counts_its_values_once(tmp_path: Path) -> None:
    """Otherwise an execution would lose values before its bound, and with them the answers that a resumed one needs."""
    thread, sizes = DatabaseThread(tmp_path), list[int]()

    def fail(connection: Connection) -> None:
        raise JournalUnavailable("not this one")

    for is_repeated in (False, True):
        journal = Journal(thread, JournalCipher(tmp_path), Audit(thread), on_written=sizes.append)
        name = f"x{is_repeated:d}"
        await journal.begin_execution(execution(name))
        await journal.begin_call(call(name=name), Allow("default"), is_read_only=True)
        await journal.end_call(ExecutionId(name), 1, CallOutcome(CallStatus.SUCCEEDED, 1.0, 1, "x" * 500))
        if is_repeated:  # all steps that share its transaction are done anew
            thread.post(fail, on_error=lambda error: None)
        await journal.begin_call(call(2, name=name), Allow("default"), is_read_only=True)
        await journal.end_execution(ExecutionId(name), ExecutionStatus.SUCCEEDED, error=None, milliseconds=1)
    thread.close()
    assert sizes[0] == sizes[1]
