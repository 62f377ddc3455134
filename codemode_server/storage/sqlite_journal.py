"""The journal: the durable log of executions and calls that resume, replay and "what did call 17 return" read.

A call is in the journal before it is sent, one that only reads before it is answered: a record that fails stops the
call. Everything else that follows a call (tracing, audit, learning, usage statistics) subscribes to `calls.events` and
can stop nothing. The outcome of a call that never ended is unknown: the product was killed before the answer.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, cast

import anyio

from codemode_server.domain.calls import (
    Allow,
    CallKey,
    CallOutcome,
    CallStatus,
    Decision,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, Repeat
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.principals import Principal, Session
from codemode_server.storage.database import placeholders
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import Ownership
from codemode_server.storage.journal_values import (
    EXECUTION_COLUMNS,
    JournalCipher,
    detail_of,
    to_decision,
    to_record,
)
from codemode_server.support.json_values import json_bytes
from codemode_server.support.off_loop import is_large, run_large
from codemode_server.support.private_cipher import ValueUnreadable

_MAX_NAME_CHARACTERS = 1_000
_ROW_BYTES = 300
"""About the size of the fixed-size fields and index entries of a row."""
_OMITTED = b"\x00"
"""Stored in place of a value that would exceed the limit for one execution."""
_ASKED_SECONDS = 86_400.0
_CALL_COLUMNS = (
    "seq, server, tool, occurrence, {0}arguments, decision, reason, detail, started_at, status, milliseconds,"
    " result_bytes, {0}result, {0}error, ended_at"
)
"""Without values if `NULL AS ` stands before those."""
_Row = tuple[Any, ...]
_Received = tuple[Literal["json", "blocks"], JsonValue]


class SqliteJournal:
    """Holds complete arguments and results, encrypted, until the retention of `state:` has passed. Every method raises
    `JournalUnavailable` if the store can't be used, with a message that says what to do."""

    def __init__(
        self,
        thread: DatabaseThread,
        cipher: JournalCipher,
        ownership: Ownership | None = None,
        *,
        execution_bytes: int = 0,
        on_written: Callable[[int], None] = lambda count: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`execution_bytes`: limit for the values of one execution; 0 for none. `on_written` is called with the
        approximate size of each execution that has ended."""
        self._thread, self._cipher = thread, cipher
        self._ownership = ownership
        self.execution_bytes = execution_bytes
        self._on_written = on_written
        self._clock = clock
        self._bytes: dict[ExecutionId, int] = {}
        """Size of each running execution so far."""
        self._unwritten: dict[ExecutionId, Exception] = {}
        """Why an outcome of a running execution could not be written."""

    async def begin_execution(self, record: ExecutionRecord, *, repeat: Repeat | None = None) -> None:
        """Returns once the record survives the death of the process. `repeat`: of a program that can run again. Raises
        `MetaToolError`: another execution applies the same dry run."""
        owner = self._ownership.name() if self._ownership else None
        self._bytes[record.execution_id] = _ROW_BYTES + len(record.code or "")

        def insert(connection: sqlite3.Connection) -> ExecutionId | None:
            if record.applies is not None:
                rows = connection.execute(
                    "SELECT execution_id FROM journal_executions WHERE principal = ? AND applies = ?",
                    (record.principal.principal_id, record.applies),
                ).fetchall()
                if rows:
                    return ExecutionId(rows[0][0])
            row = {
                "execution_id": record.execution_id,
                "principal": record.principal.principal_id,
                "session_id": record.session.session_id,
                "is_ephemeral": record.session.is_ephemeral,
                "level": record.level,
                "status": record.status,
                "started_at": record.started_at,
                "is_dry_run": record.is_dry_run,
                "applies": record.applies,
                "owner": owner,
                "code": self._encrypted(record.code, f"{record.execution_id}/code"),
                "description": self._encrypted(record.description, f"{record.execution_id}/description"),
                "seed": self._encrypted(repeat and [repeat.seed.hex()], f"{record.execution_id}/seed"),
            }
            connection.execute(
                f"INSERT INTO journal_executions ({', '.join(row)}) VALUES ({placeholders(len(row))})",  # noqa: S608
                (*row.values(),),
            )
            return None

        if (other := await self._thread.run(insert)) is not None:
            raise MetaToolError(f"the plan of {record.applies} is applied already, as {other}")

    async def reopen_execution(self, record: ExecutionRecord, session: Session) -> bool:
        """Take an execution that has ended and did not succeed, to run it again in this session; its status is
        `running` from now on. False if there is none, if it runs, here or in another product, or if by now it is of
        another session than in the record."""
        owner = self._ownership.name() if self._ownership else None
        execution_id = record.execution_id
        names = (record.principal.principal_id, execution_id)
        new = (ExecutionStatus.RUNNING, owner, session.session_id, session.is_ephemeral)

        def update(connection: sqlite3.Connection) -> int | None:
            changed = connection.execute(
                "UPDATE journal_executions SET status = ?, ended_at = NULL, error = NULL, owner = ?,"
                " session_id = ?, is_ephemeral = ?"
                " WHERE principal = ? AND execution_id = ? AND session_id = ? AND ended_at IS NOT NULL AND status <> ?",
                (*new, *names, record.session.session_id, ExecutionStatus.SUCCEEDED),
            )
            if not changed.rowcount:
                return None
            connection.execute("DELETE FROM cancel_requests WHERE execution_id = ?", (execution_id,))
            (size,) = connection.execute(
                "SELECT coalesce(bytes, 0) FROM journal_executions WHERE principal = ? AND execution_id = ?", names
            ).fetchone()
            return int(size)

        size = await self._thread.run(update)
        if size is not None:
            self._bytes[execution_id] = size
        return size is not None

    async def end_execution(
        self,
        execution_id: ExecutionId,
        status: ExecutionStatus,
        *,
        error: str | None,
        calls: int,
        milliseconds: float,
    ) -> None:
        """Set a final status, or `waiting`; it ends once, until it is reopened."""
        size = self._bytes.pop(execution_id, None)
        ended_at, place = self._clock(), f"{execution_id}/error"

        def update(connection: sqlite3.Connection) -> None:
            self._raise_unwritten(execution_id)
            connection.execute(
                "UPDATE journal_executions SET ended_at = ?, status = ?, error = ?, calls = ?,"
                " milliseconds = coalesce(milliseconds, 0) + ?, bytes = ? WHERE execution_id = ? AND ended_at IS NULL",
                (ended_at, status, self._encrypted(error, place), calls, milliseconds, size, execution_id),
            )

        try:
            await self._thread.run(update)
        finally:
            self._unwritten.pop(execution_id, None)
        self._on_written(size or 0)

    async def begin_call(self, call: ToolCall, decision: Decision, *, is_read_only: bool) -> None:
        """Returns once the call survives the death of the process, and, if it is sent and not `is_read_only`, that of
        the machine. A caller that is cancelled meanwhile has recorded it; to begin it once more begins it now."""
        await (await self.submit_call(call, decision, is_read_only=is_read_only))

    async def submit_call(self, call: ToolCall, decision: Decision, *, is_read_only: bool) -> Awaitable[None]:
        """As `begin_call`, for a caller that does something else until the call is recorded."""
        started_at = self._clock()
        place = f"{call.execution_id}/{call.seq}"
        arguments = await self._prepared(call.execution_id, call.arguments, f"{place}/arguments")

        def insert(connection: sqlite3.Connection) -> None:
            self._raise_unwritten(call.execution_id)
            # A transaction that changes nothing would not be written to disk, so one that is begun again has its time.
            connection.execute(
                "INSERT INTO journal_calls (execution_id, seq, server, tool, occurrence, arguments, decision, reason,"
                " detail, started_at, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET started_at = excluded.started_at",
                (
                    call.execution_id,
                    call.seq,
                    _short(call.server),
                    _short(call.tool),
                    call.key.occurrence,
                    arguments(),
                    *self._decision_values(decision, place),
                    started_at,
                    CallStatus.STARTED,
                ),
            )

        # A call that only reads can be repeated after a power cut, so its record need not survive that.
        return self._thread.submit(insert, is_durable=not is_read_only and isinstance(decision, Allow))

    async def end_call(
        self, execution_id: ExecutionId, seq: int, outcome: CallOutcome, decision: Decision | None = None
    ) -> None:
        """Record how a call ended, also one that was refused and begun just for that, and its `decision` if it is
        another one than that with which it began. Returns once it is queued; if it can't be written, the next
        `begin_call` or `end_execution` of the execution raises `JournalUnavailable`."""
        place = f"{execution_id}/{seq}"
        has_result = outcome.status is CallStatus.SUCCEEDED or outcome.result is not None
        received = [outcome.encoding, outcome.result]
        result = await self._prepared(execution_id, received, f"{place}/result") if has_result else lambda: None
        ended_at = self._clock()  # the program gets the answer now, not before a large result was encrypted

        def update(connection: sqlite3.Connection) -> None:
            if decision is not None:
                connection.execute(
                    "UPDATE journal_calls SET decision = ?, reason = ?, detail = ?"
                    " WHERE execution_id = ? AND seq = ? AND status = ?",
                    (*self._decision_values(decision, place), execution_id, seq, CallStatus.STARTED),
                )
            connection.execute(
                "UPDATE journal_calls SET status = ?, milliseconds = ?, result_bytes = ?, result = ?, error = ?,"
                " ended_at = ? WHERE execution_id = ? AND seq = ? AND status = ?",
                (
                    outcome.status,
                    outcome.milliseconds,
                    outcome.result_bytes,
                    result(),
                    self._encrypted(outcome.error, f"{place}/error"),
                    ended_at,
                    execution_id,
                    seq,
                    CallStatus.STARTED,
                ),
            )

        def keep_error(error: Exception) -> None:
            self._unwritten.setdefault(execution_id, error)

        self._thread.post(update, on_error=keep_error, is_held=False)

    async def execution(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        return await self._execution(principal, "execution_id", execution_id)

    async def applied_by(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        """The execution of this principal that applies a dry run; None if there is none (any more)."""
        return await self._execution(principal, "applies", execution_id)

    async def _execution(self, principal: Principal, column: str, execution_id: ExecutionId) -> ExecutionRecord | None:
        statement = f"SELECT {EXECUTION_COLUMNS} FROM journal_executions WHERE principal = ? AND {column} = ?"  # noqa: S608
        rows = await self._thread.rows(statement, (principal.principal_id, execution_id))
        return await run_large(to_record, rows[0], self._text) if rows else None

    async def calls(
        self,
        principal: Principal,
        execution_id: ExecutionId,
        *,
        after: int = 0,
        limit: int = -1,
        with_values: bool = True,
    ) -> list[CallRecord]:
        """The calls of an execution of this principal in the order of their numbers, from the one after `after` on;
        without their values if they are only listed."""
        rows = await self._thread.rows(
            f"SELECT {_CALL_COLUMNS.format('' if with_values else 'NULL AS ')} FROM journal_calls"  # noqa: S608
            " WHERE execution_id = :execution_id AND seq > :after"
            " AND EXISTS (SELECT 1 FROM journal_executions j WHERE j.execution_id = :execution_id"
            " AND j.principal = :principal) ORDER BY seq LIMIT :limit",
            {"execution_id": execution_id, "principal": principal.principal_id, "after": after, "limit": limit},
        )
        return await run_large(self._call_records, execution_id, rows)

    async def repeat(self, principal: Principal, execution_id: ExecutionId) -> Repeat | None:
        """The seed with which a program of this principal began; None if it can't run again or that can't be read."""
        rows = await self._thread.rows(
            "SELECT seed FROM journal_executions WHERE principal = ? AND execution_id = ? AND seed IS NOT NULL",
            (principal.principal_id, execution_id),
        )
        try:
            seed, *_ = self._decrypted(rows[0][0], f"{execution_id}/seed") if rows else ("",)
        except ValueUnreadable:
            return None
        return Repeat(bytes.fromhex(seed)) if seed else None

    async def ask_to_cancel(self, principal: Principal, execution_id: ExecutionId) -> bool:
        """Ask the product that runs an execution of this principal to cancel it; false if none runs (any more)."""
        now = self._clock()

        def request(connection: sqlite3.Connection) -> bool:
            connection.execute("DELETE FROM cancel_requests WHERE asked_at < ?", (now - _ASKED_SECONDS,))
            added = connection.execute(
                "INSERT OR REPLACE INTO cancel_requests SELECT execution_id, ? FROM journal_executions"
                " WHERE execution_id = ? AND principal = ? AND ended_at IS NULL",
                (now, execution_id, principal.principal_id),
            )
            return added.rowcount > 0

        return await self._thread.run(request)

    async def is_to_be_cancelled(self, execution_id: ExecutionId) -> bool:
        return bool(await self._thread.rows("SELECT 1 FROM cancel_requests WHERE execution_id = ?", (execution_id,)))

    def _raise_unwritten(self, execution_id: ExecutionId) -> None:
        if error := self._unwritten.get(execution_id):
            raise error

    async def _prepared(self, execution_id: ExecutionId, value: JsonValue, place: str) -> Callable[[], bytes]:
        """A function that returns the encrypted value. A small value is encrypted in the journal's thread, a large one
        before, so that other calls do not wait for it; that is shielded, since the outcome has to be recorded."""
        if not is_large(value):
            return lambda: self._bounded(execution_id, _json(value), place)
        with anyio.CancelScope(shield=True):
            data = await run_large(lambda: self._bounded(execution_id, _json(value), place))
        return lambda: data

    def _bounded(self, execution_id: ExecutionId, data: bytes, place: str) -> bytes:
        size = self._bytes.get(execution_id, 0) + _ROW_BYTES
        if self.execution_bytes and size + len(data) > self.execution_bytes:
            data = b""
        if execution_id in self._bytes:  # otherwise the execution has ended already
            self._bytes[execution_id] = size + len(data)
        return self._cipher.encrypt(data, place) if data else _OMITTED

    def _encrypted(self, value: JsonValue, place: str) -> bytes | None:
        return None if value is None else self._cipher.encrypt(_json(value), place)

    def _decision_values(self, decision: Decision, place: str) -> tuple[str, str, bytes | None]:
        """The columns `decision`, `reason` and `detail`."""
        detail = detail_of(decision)
        sealed = None if detail is None else self._encrypted(detail, f"{place}/detail")
        return decision.kind, _short(decision.reason), sealed

    def _decrypted(self, data: bytes | str | None, place: str) -> JsonValue:
        if data is None or isinstance(data, str):  # the upkeep writes errors as plain text
            return data
        if data == _OMITTED:
            raise ValueUnreadable("it was more than the journal holds of one execution; state.journal_mb is the bound")
        return json.loads(self._cipher.decrypt(data, place))

    def _call_records(self, execution_id: ExecutionId, rows: Sequence[_Row]) -> list[CallRecord]:
        return [self._call_record(execution_id, row) for row in rows]

    def _call_record(self, execution_id: ExecutionId, row: _Row) -> CallRecord:
        seq, server, tool, occurrence, sealed_arguments, decision, reason, detail, started_at, *ending = row
        status, milliseconds, result_bytes, sealed_result, error, ended_at = ending
        place, unreadable = f"{execution_id}/{seq}", None
        arguments: dict[str, Any] = {}
        received: JsonValue = None
        known: JsonValue = None
        try:
            arguments = self._decrypted(sealed_arguments, f"{place}/arguments") or {}
            known = self._decrypted(detail, f"{place}/detail")
        except ValueUnreadable as problem:
            unreadable = f"arguments and result can't be read: {problem}"
        try:
            received = self._decrypted(sealed_result, f"{place}/result")
        except ValueUnreadable as problem:
            unreadable = unreadable or f"the result can't be read: {problem}"
        outcome = None
        if status != CallStatus.STARTED:
            message = self._text(error, f"{place}/error")
            encoding, result = cast("_Received", tuple(received) if received else ("json", None))
            outcome = CallOutcome(
                CallStatus(status), milliseconds, result_bytes or 0, result, message, encoding=encoding
            )
        key = CallKey(server, tool, arguments_digest(arguments), occurrence)
        call = ToolCall(execution_id, seq, server, tool, arguments, key)
        return CallRecord(call, to_decision(decision, reason, known), started_at, outcome, unreadable, ended_at)

    def _text(self, data: bytes | str | None, place: str) -> str | None:
        try:
            text: str | None = self._decrypted(data, place)
        except ValueUnreadable as problem:
            return f"({problem})"
        return text


def _json(value: JsonValue) -> bytes:
    return json_bytes(value, "surrogatepass")


def _short(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _MAX_NAME_CHARACTERS else f"{text[: _MAX_NAME_CHARACTERS - 1]}…"
