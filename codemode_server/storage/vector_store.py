"""Stores vectors of texts on SQLite, so that a model encodes each text once and not at each start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import T

logger = logging.getLogger(__name__)

MAX_VECTORS = 50_000
"""Beyond it, the least recently used are deleted; with a small model each has 1.5 KB."""
_DAY = 86_400.0


class SqliteVectorCache:
    """Vectors by model name and key of the text, with a connection for each use, in any thread. After a failure, of
    which the first is logged, the cache stays empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_failed = False

    def get(self, model: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return self._do(partial(_read, model, keys)) or {}

    def put(self, model: str, vectors: Mapping[bytes, bytes]) -> None:
        self._do(partial(_write, model, vectors))

    def _do(self, step: Callable[[Connection], T]) -> T | None:
        if self._has_failed:
            return None
        try:
            with closing(Database(self._folder)) as database:
                return database.transact(step)
        except JournalUnavailable as error:
            self._has_failed = True
            logger.warning("vectors of tools are not stored between runs: %s", error)
            return None


def _write(model: str, vectors: Mapping[bytes, bytes], connection: Connection) -> None:
    now = time.time()
    connection.exec_driver_sql(
        "INSERT OR REPLACE INTO vectors (model, key, vector, used_at) VALUES (?, ?, ?, ?)",
        [(model, key, vector, now) for key, vector in vectors.items()],
    )
    connection.exec_driver_sql(
        "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used_at DESC, rowid DESC"
        " LIMIT -1 OFFSET ?)",
        (MAX_VECTORS,),
    )


def _read(model: str, keys: Sequence[bytes], connection: Connection) -> dict[bytes, bytes]:
    now, select = time.time(), "SELECT key, vector, used_at FROM vectors WHERE model = ? AND key = ?"
    rows = [row for key in keys for row in connection.exec_driver_sql(select, (model, key))]
    # Updated at most once a day: at each start there would be a write for each tool.
    connection.exec_driver_sql(
        "UPDATE vectors SET used_at = ? WHERE model = ? AND key = ?",
        [(now, model, key) for key, _, used_at in rows if used_at < now - _DAY],
    )
    return {key: vector for key, vector, _ in rows}
