"""The hash chain of the audit in SQLite: each row holds the digest of the row before it and of itself.

Retention deletes the oldest rows and stores the digest of the last deleted one, the anchor, so that the rest can still
be verified. The head is the number and digest of the newest row, in a table of its own: a new row continues the chain
from the head, so newest rows that were removed stay missing. Chain and head show that a row was changed, inserted,
moved or deleted. Somebody who can write the file can still change the head as well, remove the oldest rows and set the
anchor to match, or compute the whole chain anew. To notice that, copy the newest digest elsewhere from time to time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditEvent, AuditEventKind

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


def append_row(connection: sqlite3.Connection, event: AuditEvent) -> None:
    """Append an event, in a transaction of the caller that has locked the file."""
    append_values(connection, values_of(event))


def append_values(connection: sqlite3.Connection, values: Sequence[Any]) -> None:
    """Append an event by its `values_of`, in a transaction of the caller that has locked the file. A trigger of the
    database moves the head, for products of an earlier version as well that still have the file open."""
    insert_after(connection, head_of(connection) or last_of(connection), values)


def insert_after(connection: sqlite3.Connection, last: tuple[int, str], values: Sequence[Any]) -> None:
    """Insert a row behind the one with this number and digest."""
    number, digest = last
    connection.execute(_INSERT, (number + 1, *values, digest_of(digest, values), size_of(values)))


def size_of(values: Sequence[Any]) -> int:
    """Approximate size in bytes of the row with these values."""
    return _ROW_BYTES + sum(len(value) for value in values if isinstance(value, str))


def delete_audit_rows(connection: sqlite3.Connection, *, until: int, limit: int) -> int:
    """Delete at most `limit` of the oldest rows up to number `until`, and move the anchor, in a transaction of the
    caller; returns the number of deleted rows."""
    oldest = connection.execute(
        "SELECT number, digest FROM audit WHERE number <= ? ORDER BY number LIMIT ?", (until, limit)
    ).fetchall()
    if oldest:
        connection.execute("UPDATE audit_anchor SET number = ?, digest = ?", oldest[-1])
        connection.execute("DELETE FROM audit WHERE number <= ?", oldest[-1][:1])
    return len(oldest)


def anchor_of(connection: sqlite3.Connection) -> tuple[int, str]:
    """Number and digest of the last row that retention deleted."""
    row = connection.execute("SELECT number, digest FROM audit_anchor").fetchone()
    return row or (0, "")  # somebody deleted it; then the oldest row does not fit


def head_of(connection: sqlite3.Connection) -> tuple[int, str] | None:
    """Number and digest of the newest row as the head has them; None where somebody deleted that."""
    row: tuple[int, str] | None = connection.execute("SELECT number, digest FROM audit_head").fetchone()
    return row


def make_head(connection: sqlite3.Connection) -> None:
    """Make the table of the head, with the newest row of the audit, and the trigger that moves it."""
    connection.execute("CREATE TABLE audit_head (number INTEGER NOT NULL, digest TEXT NOT NULL)")
    connection.execute("INSERT INTO audit_head VALUES (?, ?)", last_of(connection))
    connection.execute(
        "CREATE TRIGGER audit_head_follows AFTER INSERT ON audit BEGIN"
        " UPDATE audit_head SET number = NEW.number, digest = NEW.digest WHERE number < NEW.number; END"
    )


def last_of(connection: sqlite3.Connection) -> tuple[int, str]:
    """Number and digest of the newest row, or of the last one that retention deleted."""
    row = connection.execute("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    return row or anchor_of(connection)


def values_of(event: AuditEvent) -> tuple[Any, ...]:
    """The columns of an event, with the types that SQLite returns, so that the digest can be verified."""
    milliseconds = None if event.milliseconds is None else float(event.milliseconds)
    texts = (event.kind, event.principal.principal_id, event.session_id, event.execution_id)
    after = (event.server, event.tool, event.decision, event.reason, event.status)
    last = (event.payload, event.error, event.level)
    return (
        *map(_storable, texts),
        float(event.at),
        event.seq,
        *map(_storable, after),
        milliseconds,
        *map(_storable, last),
    )


def _storable(text: str | None) -> str | None:
    """A plain string without halves of surrogate pairs, which SQLite refuses."""
    return None if text is None else str(text).encode("utf-8", "replace").decode()


def event_of(row: Sequence[Any]) -> AuditEvent:
    kind, principal, session_id, execution_id, *others = row
    return AuditEvent(
        AuditEventKind(kind), Principal(PrincipalId(principal)), session_id, ExecutionId(execution_id), *others
    )


def digest_of(before: str, values: Sequence[Any]) -> str:
    """Digest of a row with these values; `before` is the digest of the row before it."""
    if values[-1] is None:  # rows of versions without a level
        values = values[:-1]
    # Only somebody who changes the file stores bytes.
    canonical = json.dumps(values, ensure_ascii=True, separators=(",", ":"), default=_hexadecimal).encode()
    return hashlib.sha256(before.encode() + canonical).hexdigest()


def _hexadecimal(value: bytes) -> dict[str, str]:
    return {"bytes": value.hex()}
