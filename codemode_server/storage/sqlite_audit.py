"""The audit on SQLite: each row holds the digest of the row before it and of itself.

Retention deletes the oldest rows and stores the digest of the last deleted one, the anchor, so that the rest can still
be verified. The chain shows that a row in the middle was changed, inserted or deleted. Somebody who can write the file
can still remove the newest rows, remove the oldest rows and set the anchor to match, or compute the whole chain anew.
To notice that, copy the newest digest elsewhere from time to time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from codemode_server.domain.errors import AuditUnavailable, JournalUnavailable
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditEvent, AuditEventKind, AuditRow
from codemode_server.storage.database_thread import DatabaseThread, Step, T

_COLUMNS = (
    "kind, principal, session_id, execution_id, at, seq, server, tool, decision, reason, status, milliseconds,"
    " payload, error"
)
_ROW_BYTES = 250
"""What the fields of fixed size and the indexes take, about."""
_VERIFIED_AT_ONCE = 1_000


class SqliteAudit:
    """Implements `gateway.audit.Audit`."""

    def __init__(self, thread: DatabaseThread, on_written: Callable[[int], None] = lambda count: None) -> None:
        """`on_written` is called with about how many bytes a row takes."""
        self._thread = thread
        self._on_written = on_written

    def append(self, event: AuditEvent) -> None:
        values = _values(event)
        canonical = _canonical(values)
        size = _ROW_BYTES + len(canonical)

        def insert(connection: sqlite3.Connection) -> None:
            number, digest = _last(connection)
            connection.execute(
                f"INSERT INTO audit (number, {_COLUMNS}, digest, bytes)"  # noqa: S608
                f" VALUES (?, {', '.join('?' * len(values))}, ?, ?)",
                (number + 1, *values, _digest(digest, canonical), size),
            )

        self._thread.post(insert)
        self._on_written(size)

    async def rows(
        self, principal: Principal, *, execution_id: ExecutionId | None = None, after: int = 0, limit: int = 1_000
    ) -> Sequence[AuditRow]:
        where, values = "principal = ? AND number > ?", [principal.principal_id, after]
        if execution_id is not None:
            where, values = f"{where} AND execution_id = ?", [*values, execution_id]

        def select(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(
                f"SELECT number, {_COLUMNS}, digest FROM audit WHERE {where} ORDER BY number LIMIT ?",  # noqa: S608
                (*values, limit),
            ).fetchall()

        return [AuditRow(number, _event(row), digest) for number, *row, digest in await self._run(select)]

    async def first_broken_row(self) -> int | None:
        verified = (0, "")

        def select(connection: sqlite3.Connection) -> tuple[tuple[int, str], list[tuple[Any, ...]]]:
            rows = connection.execute(
                f"SELECT number, {_COLUMNS}, digest FROM audit WHERE number > ? ORDER BY number LIMIT ?",  # noqa: S608
                (verified[0], _VERIFIED_AT_ONCE),
            ).fetchall()
            return _anchor(connection), rows

        while True:
            # Retention may delete rows between two batches, and then the chain continues from the new anchor.
            anchor, rows = await self._run(select)
            number, digest = max(verified, anchor, key=lambda row: row[0])
            for found, *values, its_digest in rows:
                number += 1
                digest = _digest(digest, _canonical(tuple(values)))
                if found != number or its_digest != digest:
                    return int(found)
            if len(rows) < _VERIFIED_AT_ONCE:
                return None
            verified = number, digest

    async def _run(self, step: Step[T]) -> T:
        try:
            return await self._thread.run(step)
        except JournalUnavailable as error:
            raise AuditUnavailable(str(error)) from error


def delete_audit_rows(connection: sqlite3.Connection, *, until: int, limit: int) -> int:
    """Delete the oldest rows up to number `until`, at most `limit`, and move the anchor; gives how many they were."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        oldest = connection.execute(
            "SELECT number, digest FROM audit WHERE number <= ? ORDER BY number LIMIT ?", (until, limit)
        ).fetchall()
        if oldest:
            connection.execute("UPDATE audit_anchor SET number = ?, digest = ?", oldest[-1])
            connection.execute("DELETE FROM audit WHERE number <= ?", oldest[-1][:1])
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return len(oldest)


def _anchor(connection: sqlite3.Connection) -> tuple[int, str]:
    """Number and digest of the last row that retention deleted."""
    number, digest = connection.execute("SELECT number, digest FROM audit_anchor").fetchone()
    return number, digest


def _last(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    return row or _anchor(connection)


def _values(event: AuditEvent) -> tuple[Any, ...]:
    """The columns of an event, as SQLite gives them back."""
    named = {field.name: getattr(event, field.name) for field in fields(event)}
    named |= {"kind": event.kind.value, "principal": event.principal.principal_id, "at": float(event.at)}
    if event.milliseconds is not None:
        named["milliseconds"] = float(event.milliseconds)
    return tuple(_storable(value) for value in named.values())


def _storable(value: object) -> object:
    return str(value).encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _event(row: Sequence[Any]) -> AuditEvent:
    kind, principal, session_id, execution_id, *others = row
    return AuditEvent(
        AuditEventKind(kind), Principal(PrincipalId(principal)), session_id, ExecutionId(execution_id), *others
    )


def _canonical(values: tuple[Any, ...]) -> bytes:
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).encode()


def _digest(before: str, canonical: bytes) -> str:
    return hashlib.sha256(before.encode() + canonical).hexdigest()
