"""The ledger on SQLite."""

from __future__ import annotations

import time
from collections.abc import Callable

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.gateway.ledger import CallStart, ExecutionStart
from codemode_server.storage.database import Database
from codemode_server.storage.ownership import Ownership

_MAX_NAME_CHARACTERS = 1_000
"""Of the name of a server or tool, and of a reason."""


class LedgerStore:
    """Implements `gateway.ledger.Ledger`."""

    def __init__(
        self,
        database: Database,
        ownership: Ownership | None = None,
        on_written: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`on_written` is told, when an execution is settled, about how many bytes were added since the last one."""
        self._database = database
        self._ownership = ownership
        self._on_written = on_written
        self._written = 0

    def record_execution_started(self, start: ExecutionStart) -> None:
        self._write(
            "INSERT INTO executions (execution_id, session_id, customer, level, code, started_at, status, owner)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            start.execution_id,
            start.session_id,
            start.customer,
            start.level,
            start.code,
            time.time(),
            ExecutionStatus.RUNNING,
            self._ownership.name() if self._ownership else None,
        )

    def record_execution_settled(
        self, execution_id: ExecutionId, status: ExecutionStatus, error: str | None, calls: int, milliseconds: float
    ) -> None:
        self._write(
            # Another product may have taken this one for dead, after somebody had removed its folder.
            "UPDATE executions SET settled_at = ?, status = ?, error = ?, calls = ?, milliseconds = ?, bytes = NULL"
            " WHERE execution_id = ? AND (settled_at IS NULL OR status = ?)",
            time.time(),
            status,
            error,
            calls,
            milliseconds,
            execution_id,
            ExecutionStatus.INTERRUPTED,
        )
        written, self._written = self._written, 0
        self._on_written(written)

    def record_call_started(self, start: CallStart) -> None:
        self._write(
            "INSERT INTO calls (execution_id, seq, server, tool, verdict, reason, arguments, started_at, status)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            start.execution_id,
            start.seq,
            _short(start.server),
            _short(start.tool),
            start.verdict,
            _short(start.reason),
            start.arguments,
            time.time(),
            CallStatus.STARTED,
        )

    def record_call_settled(
        self,
        execution_id: ExecutionId,
        seq: int,
        status: CallStatus,
        milliseconds: float,
        result_bytes: int,
        result: str | None,
        error: str | None,
    ) -> None:
        self._write(
            "UPDATE calls SET settled_at = ?, status = ?, milliseconds = ?, result_bytes = ?, result = ?, error = ?"
            " WHERE execution_id = ? AND seq = ? AND settled_at IS NULL",
            time.time(),
            status,
            milliseconds,
            result_bytes,
            result,
            error,
            execution_id,
            seq,
        )

    def _write(self, statement: str, *values: str | float | None) -> None:
        self._database.write(statement, values)
        self._written += 100 + sum(len(value) for value in values if isinstance(value, str))


def _short(text: str) -> str:
    return text if len(text) <= _MAX_NAME_CHARACTERS else f"{text[: _MAX_NAME_CHARACTERS - 1]}…"
