"""Tables with one row for each tool: the learned types of its results, and how often it is used."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Connection

from codemode_server.catalog.observed import ToolKey
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.storage.database import Database, placeholders
from codemode_server.storage.database_thread import DatabaseThread

logger = logging.getLogger(__name__)

MAX_TOOLS = 2_000
"""Rows in each table; beyond it, the least recently written are deleted."""

K = TypeVar("K", bound=tuple[str, ...])
V = TypeVar("V")


class ToolTable(Generic[K, V]):
    """No method raises: what can't be stored is learned again, and the first failure is logged. Only `load`, at the
    start, waits for the disk."""

    _key: Callable[..., K]
    _table: ClassVar[str]
    _keys: ClassVar[str]
    _values: ClassVar[str]
    """Two columns beside the key; the second is the time of the last change."""
    _content: ClassVar[str]

    def __init__(self, database: Database, thread: DatabaseThread) -> None:
        """`load` reads with `database`; `thread` writes."""
        self._database = database
        self._thread = thread
        self._has_failed = False
        self._time = self._values.split(", ")[1]

    def _decode(self, value: Any, at: float) -> V:
        raise NotImplementedError

    def _encode(self, value: V) -> tuple[object, float]:
        raise NotImplementedError

    def load(self) -> dict[K, V]:
        """All that is stored, the oldest first."""
        select = f"SELECT {self._values}, {self._keys} FROM {self._table} ORDER BY {self._time} DESC LIMIT ?"  # noqa: S608
        try:
            with self._database.begin(reads=True) as connection:
                rows = connection.exec_driver_sql(select, (MAX_TOOLS,)).fetchall()
        except JournalUnavailable as error:
            self._log("read", error)
            return {}
        return {self._key(*key): self._decode(value, at) for value, at, *key in reversed(rows)}

    async def update(self, changes: Mapping[K, Callable[[V | None], V]]) -> bool:
        """Replace each stored value, or None, by what its function returns, in one transaction, so that other products
        lose nothing; the functions run in another thread, and again after a failure. False if that was not possible."""
        marks = placeholders(len(self._keys.split(", ")))

        def replace(connection: Connection) -> None:
            for key, change in changes.items():
                row = connection.exec_driver_sql(
                    f"SELECT {self._values} FROM {self._table} WHERE ({self._keys}) = ({marks})",  # noqa: S608
                    key,
                ).fetchone()
                connection.exec_driver_sql(
                    f"INSERT OR REPLACE INTO {self._table} ({self._values}, {self._keys}) VALUES (?, ?, {marks})",  # noqa: S608
                    (*self._encode(change(self._decode(*row) if row else None)), *key),
                )
            connection.exec_driver_sql(
                f"DELETE FROM {self._table} WHERE ({self._keys}) IN"  # noqa: S608
                f" (SELECT {self._keys} FROM {self._table} ORDER BY {self._time} DESC LIMIT -1 OFFSET ?)",
                (MAX_TOOLS,),
            )

        try:
            await self._thread.run(replace)
        except JournalUnavailable as error:
            self._log("stored for next time", error)
            return False
        return True

    def forget(self) -> None:
        delete, loss = f"DELETE FROM {self._table}", f"{self._content} can't be forgotten"  # noqa: S608
        self._thread.post(lambda connection: connection.exec_driver_sql(delete), loss)

    def _log(self, what: str, error: JournalUnavailable) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.warning("%s can't be %s: %s", self._content, what, error)


class SqliteObservedTypeStore(ToolTable[ToolKey, str]):
    """Learned types of tools' results: `catalog.observed.Observed` as JSON."""

    _key = ToolKey
    _table, _keys, _values = "shapes", "upstream, tool, schemas", "observed, stored_at"
    _content = "what earlier calls returned"

    def _decode(self, value: Any, at: float) -> str:
        return str(value)

    def _encode(self, value: str) -> tuple[object, float]:
        return value, time.time()


class SqliteUsageStore(ToolTable[ToolName, Use]):
    _key = ToolName
    _table, _keys, _values = "habits", "server, tool", "uses, used_at"
    _content = "which tools are used"

    def _decode(self, value: Any, at: float) -> Use:
        return Use(value, at)

    def _encode(self, value: Use) -> tuple[object, float]:
        return value
