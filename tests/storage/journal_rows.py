"""Rows of the journal as `SqliteJournal` writes them, for tests of the database itself: without a thread or a key."""

from __future__ import annotations

import time

from codemode_server.storage.database import Database
from codemode_server.storage.interrupted import Ownership


def begin_execution(database: Database, name: str, *, code: str | None = None, owner: Ownership | None = None) -> None:
    database.write(
        "INSERT INTO journal_executions (execution_id, principal, session_id, is_ephemeral, level, status, started_at,"
        " code, owner) VALUES (?, 'default', 's', 0, 'wasm', 'running', ?, ?, ?)",
        (name, time.time(), code, owner.name() if owner else None),
    )


def end_execution(database: Database, name: str) -> None:
    database.write(
        "UPDATE journal_executions SET ended_at = ?1, status = 'succeeded', error = NULL,"
        " bytes = IFNULL(LENGTH(code), 0) + "
        " (SELECT TOTAL(200 + LENGTH(result)) FROM journal_calls WHERE execution_id = ?2)"
        " WHERE execution_id = ?2",
        (time.time(), name),
    )


def add_call(database: Database, name: str, seq: int = 1, *, result: str | None = None) -> None:
    """A call that has ended if it has a result."""
    database.write(
        "INSERT INTO journal_calls (execution_id, seq, server, tool, occurrence, arguments, decision, reason,"
        " started_at, status, result) VALUES (?, ?, 'github', 'list', 1, '{}', 'allow', 'default', ?, ?, ?)",
        (name, seq, time.time(), "started" if result is None else "succeeded", result),
    )
