"""The database of a product, as a test reads and changes it beside the product."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from codemode_server.storage.sqlite import FILE_NAME


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query gives in the database of a state folder."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        return connection.execute(query).fetchall()


def change(folder: Path, statement: str, *values: object) -> int:
    """How many rows a statement changes there."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        return connection.execute(statement, values).rowcount
