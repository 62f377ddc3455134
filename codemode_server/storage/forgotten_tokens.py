"""Deletes the rows of privacy tokens that were forgotten or have expired, once other products have noticed it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from codemode_server.storage.database import Database

KEPT_CHANGES = 10_000
"""Rows of so many of the latest changes of a principal stay. A product that has missed more reads all tokens anew."""
_ROWS_AT_ONCE = 500
_TO_DELETE = """
SELECT principal, label, number FROM privacy_tokens AS row WHERE value IS NULL
AND change <= (SELECT max(change) FROM privacy_tokens WHERE principal = row.principal) - ?
AND number < (SELECT max(number) FROM privacy_tokens WHERE principal = row.principal AND label = row.label)
LIMIT ?
"""


def delete_forgotten_tokens(database: Database, is_ending: Callable[[float], bool], pause_seconds: float) -> None:
    """Delete them in small transactions. `is_ending` waits so many seconds and says whether to stop. Blocks."""
    while True:
        with database.use() as connection:
            rows = connection.execute(_TO_DELETE, (KEPT_CHANGES, _ROWS_AT_ONCE)).fetchall()
        if not rows:
            return
        database.transact(partial(_delete, rows))
        if is_ending(pause_seconds):
            return


def _delete(rows: list[tuple[str, str, int]], connection: sqlite3.Connection) -> None:
    connection.executemany(
        "DELETE FROM privacy_tokens WHERE (principal, label, number) = (?, ?, ?) AND value IS NULL", rows
    )
