"""The audit on SQLite; `audit_chain` writes its rows and computes their digests."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from codemode_server.domain.errors import AuditUnavailable, JournalUnavailable
from codemode_server.domain.executions import ExecutionRecord
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditEvent, AuditRow
from codemode_server.gateway.audit_history import execution_record
from codemode_server.storage.audit_chain import (
    COLUMNS,
    anchor_of,
    append_values,
    digest_of,
    event_of,
    head_of,
    last_of,
    size_of,
    values_of,
)
from codemode_server.storage.database_thread import DatabaseThread, Step, T

_VERIFIED_AT_ONCE = 1_000


class SqliteAudit:
    """Implements `gateway.audit.Audit`."""

    def __init__(self, thread: DatabaseThread, on_written: Callable[[int], None] = lambda count: None) -> None:
        """`on_written` is called with the approximate size of each row."""
        self._thread = thread
        self._on_written = on_written

    def append(self, event: AuditEvent) -> None:
        values = values_of(event)
        self._thread.post(lambda connection: append_values(connection, values), "an event of the audit is lost")
        self._on_written(size_of(values))

    async def record(self, event: AuditEvent) -> None:
        """As `append`, for what must not happen unless it is recorded: returns once the row is stored, and raises as
        `rows` does."""
        values = values_of(event)
        await self._run(lambda connection: append_values(connection, values))
        self._on_written(size_of(values))

    async def rows(
        self, principal: Principal, *, execution_id: ExecutionId | None = None, after: int = 0, limit: int = 1_000
    ) -> Sequence[AuditRow]:
        return await self._rows("number > ?", after, principal, execution_id, "number", limit)

    async def executions(
        self, principal: Principal, *, limit: int, before: float | None = None
    ) -> Sequence[ExecutionRecord]:
        until = float("inf") if before is None else before

        def select(connection: sqlite3.Connection) -> list[ExecutionRecord]:
            # The kind is a literal, so that SQLite can use the partial index.
            started = connection.execute(
                f"SELECT {COLUMNS} FROM audit WHERE kind = 'execution_started' AND principal = ? AND at < ?"  # noqa: S608
                " ORDER BY at DESC LIMIT ?",
                (principal.principal_id, until, limit),
            ).fetchall()
            return [_record(connection, event_of(row)) for row in started]

        return await self._run(select)

    async def first_broken_row(self) -> int | None:
        broken_row, _ = await self.verified()
        return broken_row

    async def verified(self) -> tuple[int | None, int]:
        """The first row that does not fit, or None; and how many rows are missing at the end. Raises as `rows` does."""
        verified = (0, "")

        def select(
            connection: sqlite3.Connection,
        ) -> tuple[tuple[int, str], list[tuple[Any, ...]], tuple[int, str] | None]:
            rows = connection.execute(
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

        def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(
                f"SELECT number, {COLUMNS}, digest FROM audit WHERE {where} ORDER BY {order} LIMIT ?",  # noqa: S608
                (*values, limit),
            ).fetchall()

        return [AuditRow(number, event_of(row), digest) for number, *row, digest in await self._run(select)]

    async def holds(self, digest: str) -> bool:
        """Whether a row has this digest, or the last one that retention deleted. Raises as `rows` does."""

        def select(connection: sqlite3.Connection) -> bool:
            row = connection.execute("SELECT 1 FROM audit WHERE digest = ?", (digest,)).fetchone()
            return row is not None or anchor_of(connection)[1] == digest

        return await self._run(select)

    async def extent(self) -> tuple[int, str]:
        """The number of rows of all principals, and the newest digest. Raises as `rows` does."""

        def select(connection: sqlite3.Connection) -> tuple[int, str]:
            (count,) = connection.execute("SELECT COUNT(*) FROM audit").fetchone()
            return count, str(last_of(connection)[1])

        return await self._run(select)

    async def _run(self, step: Step[T]) -> T:
        try:
            return await self._thread.run(step)
        except JournalUnavailable as error:
            raise AuditUnavailable(str(error)) from error


def _record(connection: sqlite3.Connection, started: AuditEvent) -> ExecutionRecord:
    its = (started.principal.principal_id, started.execution_id)
    ended = connection.execute(
        f"SELECT {COLUMNS} FROM audit WHERE principal = ? AND execution_id = ? AND kind = 'execution_ended'"  # noqa: S608
        " ORDER BY number DESC LIMIT 1",
        its,
    ).fetchone()
    (calls,) = connection.execute(
        "SELECT COUNT(*) FROM audit WHERE principal = ? AND execution_id = ? AND kind = 'call_decided'", its
    ).fetchone()
    return execution_record(started, event_of(ended) if ended else None, calls)
