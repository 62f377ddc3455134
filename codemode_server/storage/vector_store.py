"""Stores vectors of texts on SQLite, so that a model encodes each text once and not at each start."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database, placeholders

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 2**20
"""Limit for all vectors, enough for 300,000 texts with a small model. Beyond it the least recently used are deleted."""
_AT_ONCE = 500
"""Keys in one query."""
_DAY = 86_400.0


class SqliteVectorCache:
    """Implements `search.semantic.VectorCache`. Works in any thread, with a connection of its own.

    The first failure is logged, and after it the cache stays empty.
    """

    def __init__(self, folder: Path, *, most_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._turn = threading.Lock()
        self._database: Database | None = None
        self._bytes = 0
        self._is_closed = False

    def get(self, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._turn:
            try:
                if (database := self._opened()) is not None:
                    with database.use() as connection:
                        for start in range(0, len(keys), _AT_ONCE):
                            found |= _read(connection, model, keys[start : start + _AT_ONCE])
            except JournalUnavailable as error:
                self._give_up(error)
        return found

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        with self._turn:
            try:
                if (database := self._opened()) is not None:
                    database.transact(partial(self._write, model, vectors))
            except JournalUnavailable as error:
                self._give_up(error)

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._end()

    def _opened(self) -> Database | None:
        """The database; None after `close` or a failure."""
        if self._database is None and not self._is_closed:
            self._database = Database(self._folder)
            with self._database.use() as connection:
                (self._bytes,) = connection.execute("SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM vectors").fetchone()
        return self._database

    def _write(self, model: str, vectors: Mapping[bytes, bytes], connection: sqlite3.Connection) -> None:
        now = time.time()
        connection.executemany(
            "INSERT OR REPLACE INTO vectors (model, key, vector, used_at) VALUES (?, ?, ?, ?)",
            [(model, key, vector, now) for key, vector in vectors.items()],
        )
        self._bytes += sum(map(len, vectors.values()))
        if self._bytes > self._most_bytes:
            self._bytes = _forget(connection, self._most_bytes // 10 * 9)

    def _give_up(self, error: JournalUnavailable) -> None:
        logger.warning("vectors of tools are not stored between runs: %s", error)
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


def _read(connection: sqlite3.Connection, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    now = time.time()
    marks = placeholders(len(keys))
    rows = connection.execute(
        f"SELECT key, vector, used_at FROM vectors WHERE model = ? AND key IN ({marks})",  # noqa: S608 - only marks
        (model, *keys),
    ).fetchall()
    # Updated at most once a day: at each start there would be a write for each tool.
    if stale := [key for key, _, used_at in rows if used_at < now - _DAY]:
        connection.executemany(
            "UPDATE vectors SET used_at = ? WHERE model = ? AND key = ?", [(now, model, key) for key in stale]
        )
    return {key: vector for key, vector, _ in rows if isinstance(key, bytes) and isinstance(vector, bytes)}


def _forget(connection: sqlite3.Connection, most_bytes: int) -> int:
    (total,) = connection.execute("SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM vectors").fetchone()
    gone = []
    for rowid, size in connection.execute("SELECT rowid, LENGTH(vector) FROM vectors ORDER BY used_at, rowid"):
        if total <= most_bytes:
            break
        total -= size
        gone.append((rowid,))
    connection.executemany("DELETE FROM vectors WHERE rowid = ?", gone)
    return int(total)
