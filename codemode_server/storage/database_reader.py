"""Reads a database that nothing else uses, in a thread, one step at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from codemode_server.storage.database import Database

_T = TypeVar("_T")


class DatabaseReader:
    """Makes the steps of one store wait for each other."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._one = anyio.Lock()

    async def run(self, step: Callable[[sqlite3.Connection], _T]) -> _T:
        """Runs a step and returns its result. Raises `JournalUnavailable`: the database can't be used."""

        def run() -> _T:
            with self._database.use() as connection:
                return step(connection)

        async with self._one:
            return await anyio.to_thread.run_sync(run)
