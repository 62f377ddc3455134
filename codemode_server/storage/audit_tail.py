"""Follows the audit while other processes write it, without a lock that they would wait for."""

from __future__ import annotations

import sqlite3

from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditRow
from codemode_server.storage.audit_chain import COLUMNS, event_of
from codemode_server.storage.database import Database

_ROWS_AT_ONCE = 1_000


class AuditTail:
    """The rows of one principal that are new since the last look."""

    def __init__(
        self, database: Database, principal: Principal, execution_id: ExecutionId | None = None, *, rows: int
    ) -> None:
        """`rows`: that many of those that are there come with the first look."""
        self._database = database
        self._where = "principal = ?"
        self._values: tuple[str, ...] = (principal.principal_id,)
        if execution_id is not None:
            self._where, self._values = f"{self._where} AND execution_id = ?", (*self._values, execution_id)
        self._version: int | None = None
        with database.use() as connection:
            self._after = self._start(connection, rows)

    def _start(self, connection: sqlite3.Connection, rows: int) -> int:
        """The number after which the first look begins."""
        row = connection.execute(
            f"SELECT number FROM audit WHERE {self._where} ORDER BY number DESC LIMIT 1 OFFSET ?",  # noqa: S608
            (*self._values, rows),
        ).fetchone()
        return int(row[0]) if row else 0

    def new_rows(self) -> list[AuditRow]:
        """In order; at most a thousand at once. Raises `JournalUnavailable`."""
        with self._database.use() as connection:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version == self._version:  # no other connection has written anything
                return []
            found = connection.execute(
                f"SELECT number, {COLUMNS}, digest FROM audit WHERE {self._where} AND number > ?"  # noqa: S608
                " ORDER BY number LIMIT ?",
                (*self._values, self._after, _ROWS_AT_ONCE),
            ).fetchall()
        if len(found) < _ROWS_AT_ONCE:
            self._version = version
        self._after = found[-1][0] if found else self._after
        return [AuditRow(number, event_of(row), digest) for number, *row, digest in found]
