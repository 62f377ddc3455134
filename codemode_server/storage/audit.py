"""The audit: the executions and calls of the journal, and further events, whose rows form hash chains.

Each process writes a chain of its own, so that no writer waits for another: the row of an event has its own digest and
that of the event before it in the chain. The event of an execution's end also has a digest over the execution and its
calls. So verification finds rows that were changed, inserted, moved or deleted. It can't find that the newest events of
a chain were deleted, a whole chain, or an execution with its calls; nor the oldest rows, which retention deletes too.
Somebody who can write the database can also compute all digests anew. To notice that, copy the newest digest elsewhere
from time to time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, Table, bindparam, func, insert, select, union_all

from codemode_server.calls.audit import AuditEvent, AuditEventKind, AuditRow
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import AuditUnavailable, JournalUnavailable
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import AnyRow, Database
from codemode_server.storage.database_thread import DatabaseThread, Step, T
from codemode_server.storage.tables import ALL_ROWS, calls, events, executions, plain

_ROW_BYTES = 250
"""About the size of the fixed-size fields and index entries of a row."""
_VERIFIED_AT_ONCE = 1_000
_READ_AT_ONCE = 500
"""Rows that PostgreSQL sends at a time: those of many executions need not fit into memory."""


def _is_of_some(table: Table) -> ColumnElement[bool]:
    """SQL: the execution of the row comes after `after`, and is `last` or comes before it."""
    return (table.c.execution_id > bindparam("after")) & (table.c.execution_id <= bindparam("last"))


_EVENT = tuple(
    events.c[it]
    for it in (
        *("kind", "principal", "session_id", "execution_id", "at", "seq", "server", "tool"),
        *("decision", "reason", "status", "payload"),
    )
)
_EVENT_NAMES = [it.name for it in _EVENT]
_EXECUTION = tuple(
    executions.c[it]
    for it in (
        *("execution_id", "principal", "session_id", "level", "status", "started_at", "ended_at", "milliseconds"),
        *("is_dry_run", "applies", "recorded_code", "recorded_description", "error"),
    )
)
_CALL = tuple(
    calls.c[it]
    for it in (
        *("execution_id", "seq", "server", "tool", "started_at", "recorded_arguments"),
        *("ended_at", "decision", "reason", "status", "milliseconds", "recorded_result", "recorded_error"),
    )
)
_BEGUN = 6
"""Number of leading columns that no longer change once a call has begun."""

_INSERT = insert(events)
_HEAD = select(events.c.digest).where(events.c.chain == bindparam("of_chain")).order_by(events.c.number.desc()).limit(1)
_ONE = select(*_EXECUTION).where(executions.c.execution_id == bindparam("of_execution"))
_ITS_CALLS = select(*_CALL).where(calls.c.execution_id == bindparam("of_execution")).order_by(calls.c.seq)
_VERIFIED = (
    select(events.c.number, events.c.chain, events.c.previous, events.c.digest, *_EVENT)
    .where(events.c.number > bindparam("after"))
    .order_by(events.c.number)
    .limit(_VERIFIED_AT_ONCE)
)
_NAMES = (
    select(executions.c.execution_id)
    .where(executions.c.execution_id > bindparam("after"))
    .order_by(executions.c.execution_id)
    .limit(_VERIFIED_AT_ONCE)
)
_IN_TURN = (AuditEventKind.EXECUTION_ENDED, AuditEventKind.EXECUTION_RESUMED)
_SOME = select(*_EXECUTION).where(_is_of_some(executions)).execution_options(yield_per=_READ_AT_ONCE)
_THEIR_CALLS = (
    select(*_CALL)
    .where(_is_of_some(calls))
    .order_by(calls.c.execution_id, calls.c.seq)
    .execution_options(yield_per=_READ_AT_ONCE)
)
_THEIR_ENDS = (
    select(events.c.execution_id, events.c.kind, events.c.payload)
    .where(_is_of_some(events), events.c.kind.in_(_IN_TURN))
    .order_by(events.c.number)
)
_NEWEST = select(func.count(), func.max(events.c.number)).select_from(events)


class Audit:
    """Writes and reads the audit. An event that `append` can't write is logged; that stops no call."""

    def __init__(
        self,
        thread: DatabaseThread,
        on_written: Callable[[int], None] = lambda count: None,
        *,
        reader: Database | None = None,
    ) -> None:
        """`on_written` is called with the approximate size of each event. `reader` reads rows without waiting for
        writers, so what was appended last may be missing."""
        self._thread = thread
        self._reader = reader
        self._on_written = on_written
        self._chain = new_chain()

    def append(self, event: AuditEvent) -> None:
        """Queue the event and return at once. Events are written in the order in which they are queued."""
        self._thread.post(partial(add_event, chain=self._chain, event=event), "an event of the audit is lost")
        self._on_written(size_of(event.reason, event.payload))

    async def record(self, event: AuditEvent) -> None:
        """Write an event before something that must not happen unrecorded. Raises `AuditUnavailable`."""
        await self._run(partial(add_event, chain=self._chain, event=event))
        self._on_written(size_of(event.reason, event.payload))

    def add(self, connection: Connection, event: AuditEvent) -> None:
        """Add an event in a transaction of the caller."""
        add_event(connection, chain=self._chain, event=event)

    def add_end(self, connection: Connection, execution_id: ExecutionId) -> None:
        """Add the end of an execution, in the transaction that sets it."""
        add_end(connection, self._chain, execution_id)

    async def rows(
        self,
        principal: Principal | None,
        *,
        execution_id: ExecutionId | None = None,
        since: float = 0.0,
        until: float = inf,
        limit: int = ALL_ROWS,
    ) -> list[AuditRow]:
        """The newest rows, oldest first: beginnings and ends of executions and calls, and events, of one principal or
        all, of one execution or all, from `since` until before `until`. Calls are only read of the `limit` newest
        executions, and of the executions of these events. Raises `AuditUnavailable`."""
        return await self._run(partial(_rows, principal, execution_id, since, until, limit), self._reader)

    async def verified(self) -> str:
        """The first event or execution that was tampered with; empty if none was. Raises as `rows` does."""
        heads: dict[str, str] = {}
        after, is_more = 0, True
        while is_more:
            rows = await self._run(partial(_events_after, after), self._reader)
            for number, chain, previous, digest, *values in rows:
                if heads.get(chain, previous) != previous or digest_of(previous, values) != digest:
                    return f"row {number}"
                heads[chain], after = digest, number
            is_more = len(rows) == _VERIFIED_AT_ONCE
        last: str | None = ""
        while last is not None:
            broken, last = await self._run(partial(_first_broken, last), self._reader)
            if broken is not None:
                return f"execution {broken}"
        return ""

    async def holds(self, digest: str) -> bool:
        """True if an event has this digest. Raises as `rows` does."""
        statement = select(events.c.number).where(events.c.digest == digest)
        return await self._run(lambda connection: connection.execute(statement).first(), self._reader) is not None

    async def extent(self) -> tuple[int, str]:
        """The number of events of all principals, and the newest digest. Raises as `rows` does."""

        def read(connection: Connection) -> tuple[int, str]:
            count, newest = connection.execute(_NEWEST).one()
            digest = connection.execute(select(events.c.digest).where(events.c.number == newest)).scalar()
            return count, digest or ""

        return await self._run(read, self._reader)

    async def _run(self, step: Step[T], reader: Database | None = None) -> T:
        try:
            return await (self._thread.run(step) if reader is None else reader.read(step))
        except JournalUnavailable as error:
            raise AuditUnavailable(str(error)) from error


def new_chain() -> str:
    return uuid4().hex


def add_event(connection: Connection, chain: str, event: AuditEvent) -> None:
    """Add an event to the chain of a process, in a transaction of the caller."""
    row = dict(zip(_EVENT_NAMES, _values(event), strict=True))
    previous = connection.execute(_HEAD, {"of_chain": chain}).scalar() or ""
    digest, size = digest_of(previous, [*row.values()]), size_of(event.reason, event.payload)
    connection.execute(_INSERT, row | {"chain": chain, "previous": previous, "digest": digest, "bytes": size})


def add_end(connection: Connection, chain: str, execution_id: ExecutionId) -> None:
    """Add the event of an execution's end, in the transaction that sets it."""
    of = {"of_execution": execution_id}
    row = connection.execute(_ONE, of).one()
    (digest,) = _content_digests([row], connection.execute(_ITS_CALLS, of)).values()
    event = AuditEvent(
        AuditEventKind.EXECUTION_ENDED,
        Principal(PrincipalId(row.principal)),
        row.session_id,
        execution_id,
        row.ended_at,
        status=row.status,
        payload=digest,
    )
    add_event(connection, chain, event)


def size_of(*texts: str | None) -> int:
    """About how much a row with these texts takes, bytes."""
    return _ROW_BYTES + sum(len(it) for it in texts if it is not None)


def digest_of(before: str, values: Iterable[Any]) -> str:
    """Digest of a row with these values; `before` is the digest of the row before it."""
    # There are bytes only if somebody has changed the database.
    canonical = json.dumps(
        [*values], ensure_ascii=True, separators=(",", ":"), default=lambda it: {"bytes": bytes(it).hex()}
    )
    return hashlib.sha256((before + canonical).encode()).hexdigest()


def _values(event: AuditEvent) -> tuple[Any, ...]:
    """The columns of an event, as the database will return them, so that the digest can be verified."""
    texts = event.server, event.tool, event.decision, event.reason, event.status, event.payload
    about = event.kind.value, event.principal.principal_id, event.session_id, event.execution_id, float(event.at)
    return *about, event.seq, *map(plain, texts)


def _content_digests(found: Iterable[AnyRow], their_calls: Iterable[AnyRow]) -> dict[str, str]:
    """As `content_digests`, of rows; the calls of an execution come in the order of their numbers."""
    ends: dict[str, float] = {}
    digests: dict[str, str] = {}
    for execution in found:
        if execution.ended_at is not None:
            ends[execution.execution_id] = execution.ended_at
            digests[execution.execution_id] = digest_of("", execution)
    for call in their_calls:
        if (end := ends.get(call.execution_id)) is not None:
            # The answer of a call may come after the end; its beginning no longer changes.
            is_settled = call.ended_at is not None and call.ended_at <= end
            before = digests[call.execution_id]
            digests[call.execution_id] = digest_of(before, call if is_settled else call[:_BEGUN])
    return digests


def content_digests(connection: Connection, after: str, last: str) -> dict[str, str]:
    """Digests over each execution that has ended, with its calls: the executions after `after`, up to `last`."""
    of = {"after": after, "last": last}
    return _content_digests(connection.execute(_SOME, of), connection.execute(_THEIR_CALLS, of))


def _events_after(number: int, connection: Connection) -> list[AnyRow]:
    return [*connection.execute(_VERIFIED, {"after": number})]


def _first_broken(after: str, connection: Connection) -> tuple[str | None, str | None]:
    """Checks the next executions after this one against the events of their ends. Returns the first one that does not
    fit, and the last one that was checked; None for the latter if there are no more."""
    names = connection.execute(_NAMES, {"after": after}).scalars().all()
    if not names:
        return None, None
    last = names[-1]
    digests = content_digests(connection, after, last)
    ends: dict[str, list[AnyRow]] = {}
    for end in connection.execute(_THEIR_ENDS, {"after": after, "last": last}):
        ends.setdefault(end.execution_id, []).append(end)
    for name in names:
        own, digest = ends.get(name, []), digests.get(name)
        # Otherwise somebody could mark an execution as running and change it, and its next end would sign the change.
        is_in_turn = all(it.kind == _IN_TURN[number % 2] for number, it in enumerate(own))
        has_ended = digest is not None
        if not is_in_turn or has_ended != bool(len(own) % 2) or (has_ended and own[-1].payload != digest):
            return name, None
    return None, last


def _rows(
    principal: Principal | None,
    execution_id: ExecutionId | None,
    since: float,
    until: float,
    limit: int,
    connection: Connection,
) -> list[AuditRow]:
    own_events = select(events.c.number, events.c.digest, *_EVENT).where(events.c.at >= since)
    if until < inf:  # with both bounds SQLite sorts all events of the time, where the newest few are asked for
        own_events = own_events.where(events.c.at < until)
    own = select(*_EXECUTION).where(
        executions.c.ended_at.is_(None) | (executions.c.ended_at >= since), executions.c.started_at < until
    )
    theirs = select(*_CALL).where(
        func.coalesce(calls.c.ended_at, calls.c.started_at) >= since, calls.c.started_at < until
    )
    if principal is not None:
        own_events = own_events.where(events.c.principal == principal.principal_id)
        own = own.where(executions.c.principal == principal.principal_id)
    if execution_id is not None:
        own_events = own_events.where(events.c.execution_id == execution_id)
        own = own.where(executions.c.execution_id == execution_id)
    rows = [_event_row(it) for it in connection.execute(own_events.order_by(events.c.number.desc()).limit(limit))]
    newest = [*connection.execute(own.order_by(executions.c.started_at.desc()).limit(limit))]
    # Older ones that were resumed, or ended late.
    others = {it.event.execution_id for it in rows} - {it.execution_id for it in newest}
    newest += connection.execute(own.where(executions.c.execution_id.in_(others))) if others else ()
    owners = {it.execution_id: (Principal(PrincipalId(it.principal)), it.session_id) for it in newest}
    ended = AuditEventKind.EXECUTION_ENDED
    ends = {(it.event.execution_id, it.event.at): place for place, it in enumerate(rows) if it.event.kind is ended}
    for execution in newest:
        rows.append(_started(execution))
        if execution.ended_at is None:
            continue
        # What the event of its end does not say.
        if (place := ends.get((execution.execution_id, execution.ended_at))) is not None:
            rows[place] = AuditRow(_ended(execution), rows[place].number, rows[place].digest)
    names = own.with_only_columns(executions.c.execution_id).order_by(executions.c.started_at.desc()).limit(limit)
    other_names = select(executions.c.execution_id).where(executions.c.execution_id.in_(others))
    # With an `or` in place of the union PostgreSQL would look through all calls.
    theirs = theirs.where(calls.c.execution_id.in_(union_all(select(names.subquery()), other_names)))
    for call in connection.execute(theirs.order_by(calls.c.started_at.desc()).limit(limit)):
        if (owner := owners.get(call.execution_id)) is not None:
            rows += _call_rows(*owner, call)
    rows = sorted((it for it in rows if since <= it.event.at < until), key=attrgetter("place"))
    return rows[-limit:]


def _event_row(row: AnyRow) -> AuditRow:
    number, digest, kind, owner, session_id, execution_id, at, *others = row
    about = Principal(PrincipalId(owner)), session_id, ExecutionId(execution_id), at
    named = dict(zip(_EVENT_NAMES[5:], others, strict=True))
    return AuditRow(AuditEvent(AuditEventKind(kind), *about, **named), number, digest)


def _started(row: AnyRow) -> AuditRow:
    return AuditRow(
        AuditEvent(
            AuditEventKind.EXECUTION_STARTED,
            Principal(PrincipalId(row.principal)),
            row.session_id,
            ExecutionId(row.execution_id),
            row.started_at,
            reason=row.recorded_description,
            payload=row.recorded_code,
            level=row.level,
        )
    )


def _ended(row: AnyRow) -> AuditEvent:
    return AuditEvent(
        AuditEventKind.EXECUTION_ENDED,
        Principal(PrincipalId(row.principal)),
        row.session_id,
        ExecutionId(row.execution_id),
        row.ended_at,
        status=ExecutionStatus(row.status),
        milliseconds=row.milliseconds,
        error=row.error,
    )


def _call_rows(principal: Principal, session_id: str, row: AnyRow) -> list[AuditRow]:
    about = principal, session_id, ExecutionId(row.execution_id)
    which = {"seq": row.seq, "server": row.server, "tool": row.tool, "decision": row.decision, "reason": row.reason}
    decided = AuditEvent(AuditEventKind.CALL_DECIDED, *about, row.started_at, payload=row.recorded_arguments, **which)
    if row.ended_at is None:
        return [AuditRow(decided)]
    ended = AuditEvent(
        AuditEventKind.CALL_ENDED,
        *about,
        row.ended_at,
        status=CallStatus(row.status),
        milliseconds=row.milliseconds,
        payload=row.recorded_result,
        error=row.recorded_error,
        **which,
    )
    return [AuditRow(decided), AuditRow(ended)]
