"""The journal's rows of executions: their columns, and what they say as records."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal, Session

EXECUTION_COLUMNS = (
    "execution_id, principal, session_id, is_ephemeral, level, status, started_at, code, ended_at, error, calls,"
    " milliseconds, is_dry_run, applies, description"
)


def to_row(
    record: ExecutionRecord, *, code: bytes | None, error: bytes | None, description: bytes | None
) -> tuple[Any, ...]:
    """The values of the columns; texts encrypted."""
    return (
        record.execution_id,
        record.principal.principal_id,
        record.session.session_id,
        record.session.is_ephemeral,
        record.level,
        record.status,
        record.started_at,
        code,
        record.ended_at,
        error,
        record.calls,
        record.milliseconds,
        record.is_dry_run,
        record.applies,
        description,
    )


def to_record(row: Sequence[Any], decrypted: Callable[[bytes | str | None, str], str | None]) -> ExecutionRecord:
    """The record of a row. `decrypted` gives the text of an encrypted column and place."""
    name, principal, session_id, is_ephemeral, level, status, started_at, code, ended_at, error, *ending = row
    calls, milliseconds, is_dry_run, applies, description = ending
    return ExecutionRecord(
        ExecutionId(name),
        Principal(PrincipalId(principal)),
        Session(session_id, bool(is_ephemeral)),
        IsolationLevel(level) if level else None,
        ExecutionStatus(status),
        started_at,
        decrypted(code, f"{name}/code"),
        ended_at,
        decrypted(error, f"{name}/error"),
        calls,
        milliseconds,
        bool(is_dry_run),
        ExecutionId(applies) if applies else None,
        decrypted(description, f"{name}/description"),
    )


def applying(connection: sqlite3.Connection, record: ExecutionRecord) -> ExecutionId | None:
    """The execution that applies the same dry run as this one, which is about to begin."""
    if record.applies is None:
        return None
    row = connection.execute(
        "SELECT execution_id FROM journal_executions WHERE principal = ? AND applies = ?",
        (record.principal.principal_id, record.applies),
    ).fetchone()
    return None if row is None else ExecutionId(row[0])
