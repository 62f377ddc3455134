"""How much tools are used, on SQLite."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.storage.database import Database

logger = logging.getLogger(__name__)

MAX_TOOLS = 2_000
"""Rows; of more, those that were not called for the longest are forgotten."""


class SqliteUsageStore:
    """Implements `search.usage_store.UsageStore`. That it can't keep something is logged once, and lived without."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._has_told = False

    def load(self) -> dict[ToolName, Use]:
        """Those that were called last come last."""
        try:
            with self._database.use() as connection:
                rows = connection.execute(
                    "SELECT server, tool, uses, used_at FROM habits ORDER BY used_at DESC LIMIT ?", (MAX_TOOLS,)
                ).fetchall()
        except JournalUnavailable as error:
            self._tell(f"which tools are used can't be read: {error}")
            return {}
        return {ToolName(server, tool): use for server, tool, *row in reversed(rows) if (use := _use(*row))}

    def update(self, changes: Mapping[ToolName, Callable[[Use | None], Use]]) -> bool:
        try:
            with self._database.change() as connection:
                for name, change in changes.items():
                    row = connection.execute(
                        "SELECT uses, used_at FROM habits WHERE server = ? AND tool = ?", name
                    ).fetchone()
                    connection.execute(
                        "INSERT OR REPLACE INTO habits (server, tool, uses, used_at) VALUES (?, ?, ?, ?)",
                        (*name, *change(_use(*row) if row else None)),
                    )
                connection.execute(
                    "DELETE FROM habits WHERE (server, tool) IN"
                    " (SELECT server, tool FROM habits ORDER BY used_at DESC LIMIT -1 OFFSET ?)",
                    (MAX_TOOLS,),
                )
        except JournalUnavailable as error:
            self._tell(f"which tools are used can't be kept for next time: {error}")
            return False
        return True

    def forget(self) -> None:
        try:
            with self._database.use() as connection:
                connection.execute("DELETE FROM habits")
        except JournalUnavailable as error:
            self._tell(f"which tools are used can't be forgotten: {error}")

    def _tell(self, what: str) -> None:
        if not self._has_told:
            self._has_told = True
            logger.warning("%s", what)


def _use(uses: object, at: object) -> Use | None:
    """What a row holds; None where it was damaged."""
    if isinstance(uses, float) and isinstance(at, float) and math.isfinite(at) and 0 <= uses < math.inf:
        return Use(uses, at)
    return None
