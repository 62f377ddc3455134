"""Requests to cancel executions that another product runs, on SQLite."""

from __future__ import annotations

import sqlite3

from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread

_HELD_SECONDS = 86_400.0


class SqliteCancelRequests:
    """Implements `executions.cancel_requests.CancelRequests`."""

    def __init__(self, database: Database, thread: DatabaseThread) -> None:
        """`database` reads, `thread` writes."""
        self._database = database
        self._thread = thread

    def is_requested(self, execution_id: ExecutionId) -> bool:
        with self._database.use() as connection:
            row = connection.execute("SELECT 1 FROM cancel_requests WHERE execution_id = ?", (execution_id,)).fetchone()
        return row is not None

    async def request(self, principal: Principal, execution_id: ExecutionId, at: float) -> bool:
        """Ask to cancel an execution of this principal; whether there is one that has not ended. Raises as the journal
        does."""

        def request(connection: sqlite3.Connection) -> bool:
            connection.execute("DELETE FROM cancel_requests WHERE asked_at < ?", (at - _HELD_SECONDS,))
            added = connection.execute(
                "INSERT OR REPLACE INTO cancel_requests SELECT execution_id, ? FROM journal_executions"
                " WHERE execution_id = ? AND principal = ? AND ended_at IS NULL",
                (at, execution_id, principal.principal_id),
            )
            return added.rowcount > 0

        return await self._thread.run(request)
