"""The audit on SQLite: a hash chain of rows, each of which holds the digest of the row before it and of itself.

Retention deletes the oldest rows and stores the digest of the last deleted one, the anchor, so that the rest can still
be verified. The head is the number and digest of the newest row, in a table of its own: a new row continues the chain
from the head, so newest rows that were removed stay missing. Chain and head show that a row was changed, inserted,
moved or deleted. Somebody who can write the file can still change the head as well, remove the oldest rows and set the
anchor to match, or compute the whole chain anew. To notice that, copy the newest digest elsewhere from time to time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection

from codemode_server.calls.audit import AuditEvent, AuditEventKind, AuditRow
from codemode_server.domain.errors import AuditUnavailable, JournalUnavailable
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread, Step, T

COLUMNS = (
    "kind, principal, session_id, execution_id, at, seq, server, tool, decision, reason, status, milliseconds,"
    " payload, error, level"
)
_ROW_BYTES = 250
"""About the size of the fixed-size fields and index entries of a row."""
_INSERT = (
    f"INSERT INTO audit (number, {COLUMNS}, digest, bytes)"  # noqa: S608
    f" VALUES (?, {', '.join('?' * (COLUMNS.count(',') + 1))}, ?, ?)"
)
_VERIFIED_AT_ONCE = 1_000


class SqliteAudit:
    """A failure to write stops no call, but for `record`."""

    def __init__(
        self,
        thread: DatabaseThread,
        on_written: Callable[[int], None] = lambda count: None,
        *,
        reader: Database | None = None,
    ) -> None:
        """`on_written` is called with the approximate size of each row. `reader` reads rows without the lock that
        writers take, so perhaps not yet what was appended here last."""
        self._thread = thread
        self._reader = reader
        self._on_written = on_written

    def append(self, event: AuditEvent) -> None:
        """Queue the event and return at once; it is written in this order. A failure to write it is logged."""
        values = values_of(event)
        size = size_of(values)
        self._thread.post(partial(append_values, values=values, size=size), "an event of the audit is lost")
        self._on_written(size)

    async def record(self, event: AuditEvent) -> None:
        """As `append`, for what must not happen unrecorded: returns once it is stored, or raises as `rows`."""
        values = values_of(event)
        await self._run(partial(append_values, values=values))
        self._on_written(size_of(values))

    async def rows(
        self, principal: Principal, *, execution_id: ExecutionId | None = None, after: int = 0, limit: int = 1_000
    ) -> Sequence[AuditRow]:
        """The principal's rows in order, from the one after number `after` on. Raises `AuditUnavailable`."""
        return await self._rows("number > ?", after, principal, execution_id, "number", limit)

    async def verified(self) -> tuple[int | None, int]:
        """The number of the first row that does not fit, or None, and how many are missing at the end; not noticed are
        missing oldest rows, which retention may delete meanwhile. Raises as `rows` does."""
        verified = (0, "")

        def select(
            connection: Connection,
        ) -> tuple[tuple[int, str], list[tuple[Any, ...]], tuple[int, str] | None]:
            rows = connection.exec_driver_sql(
                f"SELECT number, {COLUMNS}, digest FROM audit WHERE number > ? ORDER BY number LIMIT ?",  # noqa: S608
                (verified[0], _VERIFIED_AT_ONCE),
            ).fetchall()
            return anchor_of(connection), rows, head_of(connection)

        while True:
            # Retention may delete rows between two batches, and then the chain continues from the new anchor.
            anchor, rows, head = await self._run(select)
            number, digest = max(verified, anchor, key=lambda row: row[0])
            for found, *values, its_digest in rows:
                number += 1
                digest = digest_of(digest, values)
                if found != number or its_digest != digest:
                    return int(found), 0
            if len(rows) < _VERIFIED_AT_ONCE:
                if head is not None and head[0] > number:
                    return number + 1, head[0] - number
                return (None if head == (number, digest) else number), 0
            verified = number, digest

    async def newest(
        self, principal: Principal, *, execution_id: ExecutionId | None = None, since: float = 0.0, limit: int
    ) -> Sequence[AuditRow]:
        """The principal's newest rows in order, of one execution or all. Raises as `rows` does."""
        newest = await self._rows("at >= ?", since, principal, execution_id, "number DESC", limit)
        return newest[::-1]

    async def _rows(
        self, which: str, bound: float, principal: Principal, execution_id: ExecutionId | None, order: str, limit: int
    ) -> list[AuditRow]:
        where, values = f"principal = ? AND {which}", [principal.principal_id, bound]
        if execution_id is not None:
            where, values = f"{where} AND execution_id = ?", [*values, execution_id]

        def select(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.exec_driver_sql(
                f"SELECT number, {COLUMNS}, digest FROM audit WHERE {where} ORDER BY {order} LIMIT ?",  # noqa: S608
                (*values, limit),
            ).fetchall()

        return [
            AuditRow(number, event_of(row), digest) for number, *row, digest in await self._run(select, self._reader)
        ]

    async def holds(self, digest: str) -> bool:
        """True if a row has this digest, or the last one that retention deleted. Raises as `rows` does."""

        def select(connection: Connection) -> bool:
            row = connection.exec_driver_sql("SELECT 1 FROM audit WHERE digest = ?", (digest,)).fetchone()
            return row is not None or anchor_of(connection)[1] == digest

        return await self._run(select)

    async def extent(self) -> tuple[int, str]:
        """The number of rows of all principals, and the newest digest. Raises as `rows` does."""

        def select(connection: Connection) -> tuple[int, str]:
            (count,) = connection.exec_driver_sql("SELECT COUNT(*) FROM audit").fetchone()
            return count, str(last_of(connection)[1])

        return await self._run(select)

    async def _run(self, step: Step[T], reader: Database | None = None) -> T:
        try:
            return await (self._thread.run(step) if reader is None else reader.read(step))
        except JournalUnavailable as error:
            raise AuditUnavailable(str(error)) from error


def append_values(connection: Connection, values: Sequence[Any], size: int = 0) -> None:
    """Append an event by its `values_of`, in a transaction of the caller that has locked the file."""
    number, before = head_of(connection) or last_of(connection)
    head = number + 1, digest_of(before, values)
    connection.exec_driver_sql(_INSERT, (head[0], *values, head[1], size or size_of(values)))
    connection.exec_driver_sql("UPDATE audit_head SET number = ?, digest = ?", head)


def size_of(values: Sequence[Any]) -> int:
    return _ROW_BYTES + len("".join([value for value in values if isinstance(value, str)]))


def delete_audit_rows(connection: Connection, *, until: int, limit: int) -> int:
    """Delete at most `limit` of the oldest rows up to number `until`, and move the anchor, in a transaction of the
    caller; returns the number of deleted rows."""
    oldest = connection.exec_driver_sql(
        "SELECT number, digest FROM audit WHERE number <= ? ORDER BY number LIMIT ?", (until, limit)
    ).fetchall()
    if oldest:
        connection.exec_driver_sql("UPDATE audit_anchor SET number = ?, digest = ?", oldest[-1])
        connection.exec_driver_sql("DELETE FROM audit WHERE number <= ?", oldest[-1][:1])
    return len(oldest)


def anchor_of(connection: Connection) -> tuple[int, str]:
    row = connection.exec_driver_sql("SELECT number, digest FROM audit_anchor").fetchone()
    return row or (0, "")  # somebody deleted it; then the oldest row does not fit


def head_of(connection: Connection) -> tuple[int, str] | None:
    """Number and digest of the newest row as the head has them; None where somebody deleted that."""
    row: tuple[int, str] | None = connection.exec_driver_sql("SELECT number, digest FROM audit_head").fetchone()
    return row


def last_of(connection: Connection) -> tuple[int, str]:
    """Number and digest of the newest row, or of the last one that retention deleted."""
    row = connection.exec_driver_sql("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    return row or anchor_of(connection)


def values_of(event: AuditEvent) -> tuple[Any, ...]:
    """The columns of an event, with the types that SQLite returns, so that the digest can be verified."""
    principal, milliseconds = event.principal.principal_id, event.milliseconds
    values = (
        *(event.kind, principal, event.session_id, event.execution_id, float(event.at), event.seq, event.server),
        *(event.tool, event.decision, event.reason, event.status),
        *(None if milliseconds is None else float(milliseconds), event.payload, event.error, event.level),
    )
    # Plain strings without halves of surrogate pairs, which SQLite refuses.
    return tuple([str(it).encode("utf-8", "replace").decode() if isinstance(it, str) else it for it in values])


def event_of(row: Sequence[Any]) -> AuditEvent:
    kind, principal, session_id, execution_id, *others = row
    return AuditEvent(
        AuditEventKind(kind), Principal(PrincipalId(principal)), session_id, ExecutionId(execution_id), *others
    )


def digest_of(before: str, values: Sequence[Any]) -> str:
    """Digest of a row with these values; `before` is the digest of the row before it."""
    # Only somebody who changes the file stores bytes.
    canonical = json.dumps(values, ensure_ascii=True, separators=(",", ":"), default=lambda it: {"bytes": it.hex()})
    return hashlib.sha256((before + canonical).encode()).hexdigest()
