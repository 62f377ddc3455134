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
from codemode_server.storage.database import Database

logger = logging.getLogger(__name__)

MAX_VECTORS = 50_000
"""Beyond it, the least recently used are deleted; with a small model each has 1.5 KB."""
_DAY = 86_400.0


class SqliteVectorCache:
    """Vectors by model name and key of the text. Works in any thread, with a connection of its own.

    The first failure is logged, and after it the cache stays empty.
    """

    def __init__(self, folder: Path, *, max_vectors: int = MAX_VECTORS) -> None:
        self._folder = folder
        self._max_vectors = max_vectors
        self._turn = threading.Lock()
        self._database: Database | None = None
        self._is_closed = False

    def get(self, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The stored vectors of these keys."""
        with self._turn:
            try:
                if (database := self._opened()) is not None:
                    with database.use() as connection:
                        return _read(connection, model, keys)
            except JournalUnavailable as error:
                self._give_up(error)
        return {}

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Adds vectors."""
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
        return self._database

    def _write(self, model: str, vectors: Mapping[bytes, bytes], connection: sqlite3.Connection) -> None:
        now = time.time()
        connection.executemany(
            "INSERT OR REPLACE INTO vectors (model, key, vector, used_at) VALUES (?, ?, ?, ?)",
            [(model, key, vector, now) for key, vector in vectors.items()],
        )
        (count,) = connection.execute("SELECT COUNT(*) FROM vectors").fetchone()
        if count > self._max_vectors:
            connection.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used_at, rowid LIMIT ?)",
                (count - self._max_vectors,),
            )

    def _give_up(self, error: JournalUnavailable) -> None:
        logger.warning("vectors of tools are not stored between runs: %s", error)
        self._is_closed = True
        self._end()

    def _end(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


def _read(connection: sqlite3.Connection, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    now, select = time.time(), "SELECT key, vector, used_at FROM vectors WHERE model = ? AND key = ?"
    rows = [row for key in keys for row in connection.execute(select, (model, key))]
    # Updated at most once a day: at each start there would be a write for each tool.
    connection.executemany(
        "UPDATE vectors SET used_at = ? WHERE model = ? AND key = ?",
        [(now, model, key) for key, _, used_at in rows if used_at < now - _DAY],
    )
    return {key: vector for key, vector, _ in rows}
