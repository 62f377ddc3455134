"""Rows of the journal as it writes them, for tests of the database itself: without a thread or a key."""

from __future__ import annotations

import time

from sqlalchemy import func, insert, select, update

from codemode_server.storage.database import Database
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.tables import calls, executions


def begin_execution(database: Database, name: str, *, code: str | None = None, owner: Ownership | None = None) -> None:
    row = {
        "execution_id": name,
        "principal": "default",
        "session_id": "s",
        "is_ephemeral": False,
        "is_dry_run": False,
        "level": "wasm",
        "status": "running",
        "started_at": time.time(),
        "code": None if code is None else code.encode(),
        "owner": owner.name() if owner else None,
    }
    database.transact(lambda connection: connection.execute(insert(executions), row))


def end_execution(database: Database, name: str) -> None:
    size = (
        select(func.coalesce(func.sum(200 + func.length(calls.c.result)), 0))
        .where(calls.c.execution_id == name)
        .scalar_subquery()
    )
    new = {
        "ended_at": time.time(),
        "status": "succeeded",
        "value_bytes": func.coalesce(func.length(executions.c.code), 0) + size,
        "record_bytes": 300,
    }
    end = update(executions).where(executions.c.execution_id == name).values(new)
    database.transact(lambda connection: connection.execute(end))


def add_call(database: Database, name: str, seq: int = 1, *, result: str | None = None) -> None:
    """A call that has ended if it has a result."""
    row = {
        "execution_id": name,
        "seq": seq,
        "server": "github",
        "tool": "list",
        "occurrence": 1,
        "arguments": b"{}",
        "decision": "allow",
        "reason": "default",
        "started_at": time.time(),
        "status": "started" if result is None else "succeeded",
        "result": None if result is None else result.encode(),
    }
    database.transact(lambda connection: connection.execute(insert(calls), row))
