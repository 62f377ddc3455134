"""The ledger on SQLite."""

from __future__ import annotations

import time

from codemode_server.gateway.ledger import CallStart, CallStatus, ExecutionStart, ExecutionStatus
from codemode_server.model import ExecutionId
from codemode_server.storage.database import Database


class LedgerStore:
    """Implements `gateway.ledger.Ledger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_execution_started(self, start: ExecutionStart) -> None:
        with self._database.use() as connection:
            connection.execute(
                "INSERT INTO executions (execution_id, session_id, customer, level, code, started_at, status)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    start.execution_id,
                    start.session_id,
                    start.customer,
                    start.level,
                    start.code,
                    time.time(),
                    ExecutionStatus.RUNNING,
                ),
            )

    def record_execution_settled(
        self, execution_id: ExecutionId, status: ExecutionStatus, error: str | None, calls: int, milliseconds: float
    ) -> None:
        with self._database.use() as connection:
            connection.execute(
                "UPDATE executions SET settled_at = ?, status = ?, error = ?, calls = ?, milliseconds = ?"
                " WHERE execution_id = ? AND settled_at IS NULL",
                (time.time(), status, error, calls, milliseconds, execution_id),
            )

    def record_call_started(self, start: CallStart) -> None:
        with self._database.use() as connection:
            connection.execute(
                "INSERT INTO calls (execution_id, seq, server, tool, verdict, reason, arguments, started_at, status)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    start.execution_id,
                    start.seq,
                    start.server,
                    start.tool,
                    start.verdict,
                    start.reason,
                    start.arguments,
                    time.time(),
                    CallStatus.STARTED,
                ),
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
        with self._database.use() as connection:
            connection.execute(
                "UPDATE calls SET settled_at = ?, status = ?, milliseconds = ?, result_bytes = ?, result = ?, error = ?"
                " WHERE execution_id = ? AND seq = ? AND settled_at IS NULL",
                (time.time(), status, milliseconds, result_bytes, result, error, execution_id, seq),
            )
