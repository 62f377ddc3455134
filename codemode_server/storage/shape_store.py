"""What was observed of tools' results, on SQLite."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.gateway.observed_store import ToolKey
from codemode_server.storage.database import Database

logger = logging.getLogger(__name__)

MAX_TOOLS = 2_000
"""Rows; of more, those that were not written to for the longest are forgotten."""


class SqliteObservedTypeStore:
    """Implements `gateway.observed_store.ObservedTypeStore`. A failure to write is logged."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> dict[ToolKey, str]:
        try:
            with self._database.use() as connection:
                rows = connection.execute(
                    "SELECT upstream, tool, schemas, observed FROM shapes ORDER BY stored_at DESC LIMIT ?",
                    (MAX_TOOLS,),
                ).fetchall()
        except JournalUnavailable as error:
            logger.warning("what earlier calls gave can't be read: %s", error)
            return {}
        return {ToolKey(*key): observed for *key, observed in rows if isinstance(observed, str)}

    def update(self, changes: Mapping[ToolKey, Callable[[str | None], str]]) -> bool:
        try:
            with self._database.change() as connection:
                for key, change in changes.items():
                    row = connection.execute(
                        "SELECT observed FROM shapes WHERE upstream = ? AND tool = ? AND schemas = ?", key
                    ).fetchone()
                    known = row[0] if row and isinstance(row[0], str) else None
                    connection.execute(
                        "INSERT OR REPLACE INTO shapes (upstream, tool, schemas, observed, stored_at)"
                        " VALUES (?, ?, ?, ?, ?)",
                        (*key, change(known), time.time()),
                    )
                connection.execute(
                    "DELETE FROM shapes WHERE (upstream, tool, schemas) IN"
                    " (SELECT upstream, tool, schemas FROM shapes ORDER BY stored_at DESC LIMIT -1 OFFSET ?)",
                    (MAX_TOOLS,),
                )
        except JournalUnavailable as error:
            logger.warning("what calls gave can't be kept for next time: %s", error)
            return False
        return True
