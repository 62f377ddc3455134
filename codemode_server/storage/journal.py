"""The journal: the durable record of executions and their calls, which the audit, resume, replay and "what did call 17
return" read.

A call is in the journal before it is sent, one that only reads before it is answered: a record that fails stops the
call. Everything else that follows a call (tracing, learning, usage) subscribes to `calls.events` and can stop nothing.
The outcome of a call that never ended is unknown: the product was killed before the answer.

Beside complete values, which are encrypted and removed after `state.journal_hours`, a row has what `state.payloads`
allows, which stays for `state.record_days`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import Any

import anyio
from sqlalchemy import Connection

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.domain.call_limits import CallLimit
from codemode_server.domain.calls import Allow, CallOutcome, CallStatus, Decision, Deny, ToolCall
from codemode_server.domain.errors import JournalUnavailable, MetaToolError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, Repeat
from codemode_server.domain.flows import holder_in
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.domain.principals import Principal, Session
from codemode_server.storage import call_counts
from codemode_server.storage import journal_statements as statements
from codemode_server.storage.audit import Audit, size_of
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher, JournalValues, Values, json_of, short
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.tables import ALL_ROWS, calls
from codemode_server.storage.upserts import upsert
from codemode_server.support.off_loop import is_large, run_large
from codemode_server.support.private_cipher import ValueUnreadable

logger = logging.getLogger(__name__)

_END_LOST = "its end could not be recorded when it came"
_ROW_BYTES = 300
"""About the size of the fixed-size fields and index entries of a row."""


class Journal:
    """Holds complete arguments and results, encrypted, until the retention of `state:` has passed. Every method raises
    `JournalUnavailable` if the store can't be used, with a message that says what to do."""

    def __init__(
        self,
        thread: DatabaseThread,
        cipher: JournalCipher,
        audit: Audit,
        ownership: Ownership | None = None,
        *,
        execution_bytes: int = 0,
        on_written: Callable[[int], None] = lambda count: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`audit` gets the ends of executions. `execution_bytes`: limit for the values of one execution; 0 for none.
        `on_written` is called with the approximate size of each execution that has ended."""
        self._thread, self._values, self._audit = thread, JournalValues(cipher), audit
        self._ownership = ownership
        self.execution_bytes = execution_bytes
        self._on_written = on_written
        self._clock = clock
        self._bytes: dict[ExecutionId, int] = {}
        """Size of the values of each running execution so far."""
        self._recorded: dict[ExecutionId, int] = {}
        """Size of the rest of its rows."""
        self._owners: dict[ExecutionId, str | None] = {}
        """The owner with which it is recorded."""
        self._unwritten: dict[ExecutionId, Exception] = {}
        """Why an outcome of a running execution could not be written."""
        self._late_ends: list[Callable[[Connection, float], None]] = []
        """Ends that could not be written when they came; each gets the time at which it is written."""

    async def begin_execution(
        self,
        record: ExecutionRecord,
        *,
        repeat: Repeat | None = None,
        recorded_code: str | None = None,
        recorded_description: str | None = None,
    ) -> None:
        """Returns once the record survives the death of the process. `repeat`: of a program that can run again;
        `recorded_…`: what the audit shows. Raises `MetaToolError`: another execution applies the same dry run."""
        owner = self._owner()
        execution_id = record.execution_id
        self._owners[execution_id] = owner
        self._bytes[execution_id] = _ROW_BYTES + len(record.code or "")
        self._recorded[execution_id] = size_of(recorded_code, recorded_description)

        def begin(connection: Connection) -> ExecutionId | None:
            if record.applies is not None:
                of = {"of_principal": record.principal.principal_id, "of_execution": record.applies}
                if (other := connection.execute(statements.APPLIED_BY, of).scalar()) is not None:
                    return ExecutionId(other)
            row = {"owner": owner, "recorded_code": recorded_code, "recorded_description": recorded_description}
            connection.execute(statements.BEGIN_EXECUTION, row | self._values.of_execution(record, repeat))
            return None

        self._write_late_ends()
        if (other := await self._thread.run(begin)) is not None:
            raise MetaToolError(f"the plan of {record.applies} is applied already, as {other}")

    async def reopen_execution(self, record: ExecutionRecord, session: Session) -> bool:
        """Take an execution that has ended and did not succeed, to run it again in this session; its status is
        `running` from now on. False if there is none, if it runs, here or in another product, or if by now it is of
        another session than in the record."""
        owner = self._owner()
        execution_id, principal = record.execution_id, record.principal
        of = {
            "of_principal": principal.principal_id,
            "of_execution": execution_id,
            "of_session": record.session.session_id,
        }
        new = {
            "status": ExecutionStatus.RUNNING,
            "ended_at": None,
            "error": None,
            "owner": owner,
            "holder": holder_in(session),
            "session_id": session.session_id,
            "is_ephemeral": session.is_ephemeral,
            "cancel_asked_at": None,
        }
        event = AuditEvent(AuditEventKind.EXECUTION_RESUMED, principal, session.session_id, execution_id, self._clock())

        def reopen(connection: Connection) -> tuple[int, int] | None:
            if not connection.execute(statements.REOPEN, of | new).rowcount:
                return None
            self._owners[execution_id] = owner
            self._audit.add(connection, event)
            row = connection.execute(statements.SELECT_EXECUTION, of).one()
            return row.value_bytes or 0, row.record_bytes or 0

        self._write_late_ends()
        if (sizes := await self._thread.run(reopen)) is None:
            return False
        self._bytes[execution_id], self._recorded[execution_id] = sizes
        return True

    async def end_execution(
        self,
        execution_id: ExecutionId,
        status: ExecutionStatus,
        *,
        error: str | None,
        milliseconds: float,
        is_awaited: bool = True,
    ) -> None:
        """Set a final status, or `waiting`; it ends once, until it is reopened. `error` is what the audit shows. Unless
        it `is_awaited`, the end is written with what follows the answer, and a failure to write it is logged. An end
        that can't be written is written before the next beginning or end of an execution."""
        recorded = self._recorded.pop(execution_id, 0) + size_of(error)
        size = self._bytes.pop(execution_id, None)
        of = {
            "of_execution": execution_id,
            "of_owner": self._owners.pop(execution_id, None),
            "took": milliseconds,
        }
        ended_at = self._clock()
        new = {
            "holder": None,
            "status": status,
            "error": error,
            "value_bytes": size,
            "record_bytes": recorded,
        }

        def end(connection: Connection, at: float = ended_at) -> None:
            self._raise_unwritten(execution_id)
            if connection.execute(statements.END_EXECUTION, of | new | {"ended_at": at}).rowcount:
                self._audit.add_end(connection, execution_id)

        def end_later(error: Exception) -> None:
            logger.warning("the end of %s is not recorded yet: %s", execution_id, error)
            self._unwritten.pop(execution_id, None)
            new.pop("holder", None)  # what it has passed on may be unwritten as well
            self._late_ends.append(end)

        self._write_late_ends()
        try:
            if is_awaited:
                await self._thread.run(end)
            else:
                self._thread.post(end, on_error=end_later)
        except JournalUnavailable as problem:
            # As its host is told: one that succeeded could not be resumed.
            new |= {"status": ExecutionStatus.CRASHED, "error": _END_LOST}
            end_later(problem)
            raise
        self._on_written((size or 0) + recorded)

    def _write_late_ends(self) -> None:
        if self._late_ends:
            ends, self._late_ends = self._late_ends, []
            now = self._clock()  # a time long ago would be hidden from who follows the audit
            self._thread.post(
                lambda connection: [end(connection, now) for end in ends],
                on_error=lambda error: self._late_ends.extend(ends),
            )

    async def begin_call(
        self, call: ToolCall, decision: Decision, *, is_read_only: bool, recorded_arguments: str | None = None
    ) -> None:
        """Returns once the call survives the death of the process, and, if it is sent and not `is_read_only`, that of
        the machine. A caller that is cancelled meanwhile has recorded it; to begin it once more begins it now."""
        await (await self.submit_call(call, decision, is_read_only=is_read_only, recorded_arguments=recorded_arguments))

    async def submit_call(
        self,
        call: ToolCall,
        decision: Decision,
        *,
        is_read_only: bool,
        recorded_arguments: str | None = None,
        limits: Sequence[CallLimit] = (),
    ) -> Awaitable[Deny | None]:
        """As `begin_call`, for a caller that does something else until the call is recorded. `limits` count it; if one
        is reached, it is recorded with the decision that denies it, which is returned."""
        if self._ownership is not None:
            self._ownership.require()
        started_at = self._clock()
        place = f"{call.execution_id}/{call.seq}"
        arguments = await self._prepared(call.execution_id, call.arguments, f"{place}/arguments")
        row = {
            "execution_id": call.execution_id,
            "seq": call.seq,
            "server": short(call.server),
            "tool": short(call.tool),
            "occurrence": call.key.occurrence,
            "started_at": started_at,
            "status": CallStatus.STARTED,
            "recorded_arguments": recorded_arguments,
        }
        self._note_recorded(call.execution_id, recorded_arguments)

        def begin(connection: Connection) -> Deny | None:
            self._raise_unwritten(call.execution_id)
            if self._ownership is not None:
                self._ownership.confirm(connection, call.execution_id)
            denied = call_counts.count(connection, limits, started_at)
            values = {"arguments": arguments(), **self._values.decision(denied or decision, place)}
            # A transaction that changes nothing would not be written to disk, so one that is begun again has its time.
            connection.execute(upsert(connection, calls, "started_at"), row | values)
            return denied

        # A call that only reads can be repeated after a power cut, so its record need not survive that.
        return self._thread.submit(begin, is_durable=not is_read_only and isinstance(decision, Allow))

    async def limit_reached(self, limits: Sequence[CallLimit]) -> Deny | None:
        """The decision on a call that these would count; None if they would let it through now."""
        return await self._thread.run(partial(call_counts.reached, limits=limits, now=self._clock()))

    async def flush(self, execution_id: ExecutionId) -> None:
        """Return once all that was posted to the journal's thread is written. Raises `JournalUnavailable`: what was
        posted of this execution is not."""
        await self._thread.flush()
        self._raise_unwritten(execution_id)

    async def end_call(
        self,
        execution_id: ExecutionId,
        seq: int,
        outcome: CallOutcome,
        decision: Decision | None = None,
        *,
        recorded_result: str | None = None,
        recorded_error: str | None = None,
    ) -> None:
        """Record how a call ended, also one that was refused and begun just for that, and its `decision` if it is
        another one than that with which it began. Returns once it is queued; if it can't be written, the next
        `begin_call` or `end_execution` of the execution raises `JournalUnavailable`."""
        place = f"{execution_id}/{seq}"
        has_result = outcome.status is CallStatus.SUCCEEDED or outcome.result is not None
        received = [outcome.encoding, outcome.result]
        result = await self._prepared(execution_id, received, f"{place}/result") if has_result else lambda: None
        owner = self._owners[execution_id] if execution_id in self._owners else self._owner()
        at = self._clock()  # the program gets the answer now, not before a large result was encrypted
        of = {"of_execution": execution_id, "of_seq": seq, "of_owner": owner, "at": at}
        new = {
            "status": outcome.status,
            "milliseconds": outcome.milliseconds,
            "result_bytes": outcome.result_bytes,
            "ended_at": at,
            "recorded_result": recorded_result,
            "recorded_error": recorded_error,
        }
        self._note_recorded(execution_id, recorded_result, recorded_error)

        def end(connection: Connection) -> None:
            values = {"result": result(), "error": self._values.encrypted(outcome.error, f"{place}/error")}
            if decision is not None:
                values |= self._values.decision(decision, place)
            connection.execute(statements.END_CALL, of | new | values)

        # Written with the beginning of the next call, or the end of the program; a large one is not held in memory.
        is_held = not has_result or not is_large(outcome.result)
        self._thread.post(end, on_error=partial(self.note_unwritten, execution_id), is_held=is_held)

    def note_answer(self, execution_id: ExecutionId, text: str) -> None:
        """Record what the model got, in place of what it got before; later, since nothing depends on it."""

        def note(connection: Connection) -> None:
            connection.execute(statements.NOTE_ANSWER, self._values.answer(execution_id, text))

        self._thread.post(note, f"the answer of {execution_id} is not recorded")

    def note_unwritten(self, execution_id: ExecutionId, error: Exception) -> None:
        """Something of a running execution could not be written: what is recorded of it next raises this."""
        self._unwritten.setdefault(execution_id, error)

    async def execution(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        """Without its program once the journal has removed that."""
        return await self._execution(statements.SELECT_EXECUTION, principal, execution_id)

    async def applied_by(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        """The execution of this principal that applies a dry run; None if there is none (any more)."""
        return await self._execution(statements.SELECT_APPLYING, principal, execution_id)

    async def _execution(
        self, statement: Any, principal: Principal, execution_id: ExecutionId
    ) -> ExecutionRecord | None:
        of = {"of_principal": principal.principal_id, "of_execution": execution_id}
        row = await self._thread.run(lambda connection: connection.execute(statement, of).one_or_none())
        return None if row is None else await run_large(self._values.execution, row)

    async def calls(
        self,
        principal: Principal,
        execution_id: ExecutionId,
        *,
        after: int = 0,
        limit: int = ALL_ROWS,
        values: Values = "all",
    ) -> list[CallRecord]:
        """The calls of an execution of this principal in the order of their numbers, from the one after `after` on."""
        of: dict[str, object] = {"of_principal": principal.principal_id, "of_execution": execution_id}
        of |= {"after": after, "most": limit}
        statement = statements.SELECT_CALLS[values]
        rows = await self._thread.run(lambda connection: connection.execute(statement, of).all())
        return await run_large(self._values.calls, execution_id, rows)

    async def repeat(self, principal: Principal, execution_id: ExecutionId) -> Repeat | None:
        """The seed with which a program of this principal began; None if it can't run again or that can't be read."""
        of = {"of_principal": principal.principal_id, "of_execution": execution_id}
        sealed = await self._thread.run(lambda connection: connection.execute(statements.SEED, of).scalar())
        try:
            seed, *_ = self._values.decrypted(sealed, f"{execution_id}/seed") or ("",)
        except ValueUnreadable:
            return None
        return Repeat(bytes.fromhex(seed)) if seed else None

    async def ask_to_cancel(self, principal: Principal, execution_id: ExecutionId) -> bool:
        """Ask the product that runs an execution of this principal to cancel it; false if none runs (any more)."""
        of = {"of_principal": principal.principal_id, "of_execution": execution_id, "cancel_asked_at": self._clock()}
        asked = await self._thread.run(lambda connection: connection.execute(statements.ASK_TO_CANCEL, of).rowcount)
        return bool(asked)

    async def is_to_be_cancelled(self, execution_id: ExecutionId) -> bool:
        of = {"of_execution": execution_id}
        asked_at = await self._thread.run(lambda connection: connection.execute(statements.IS_CANCELLED, of).scalar())
        return asked_at is not None

    def _owner(self) -> str | None:
        return None if self._ownership is None else self._ownership.name()

    def _raise_unwritten(self, execution_id: ExecutionId) -> None:
        if error := self._unwritten.get(execution_id):
            raise error

    def _note_recorded(self, execution_id: ExecutionId, *texts: str | None) -> None:
        if execution_id in self._recorded:  # otherwise the execution has ended already
            self._recorded[execution_id] += size_of(*texts)

    async def _prepared(self, execution_id: ExecutionId, value: JsonValue, place: str) -> Callable[[], bytes]:
        """A function that returns the encrypted value. A small value is encrypted in the journal's thread, a large one
        before, so that other calls do not wait for it; that is shielded, since the outcome has to be recorded."""
        if not is_large(value):
            # Once, also where its step is done again: its size counts.
            return cache(lambda: self._bounded(execution_id, json_of(value), place))
        with anyio.CancelScope(shield=True):
            data = await run_large(lambda: self._bounded(execution_id, json_of(value), place))
        return lambda: data

    def _bounded(self, execution_id: ExecutionId, data: bytes, place: str) -> bytes:
        size = self._bytes.get(execution_id, 0) + _ROW_BYTES
        if self.execution_bytes and size + len(data) > self.execution_bytes:
            data = b""
        if execution_id in self._bytes:  # otherwise the execution has ended already
            self._bytes[execution_id] = size + len(data)
        return self._values.encrypted_json(data, place)
