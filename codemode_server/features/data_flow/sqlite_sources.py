"""Sources that sessions have read, on SQLite. Changes are queued, and done before what is queued later."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from codemode_server.domain.flows import WORKSPACE, Holder, Source
from codemode_server.domain.ids import PrincipalId
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.support.file_stamps import FileStamp
from codemode_server.support.private_files import replace_private

logger = logging.getLogger(__name__)

_FORGOTTEN_FILE = "forgotten-sources.json"
_MAX_FORGOTTEN = 1_000
_SESSION_DAYS = 30.0
"""Retention of a session's sources, for executions that are resumed."""
_MAX_ROWS = 20_000
_COLUMNS = "server, tool, title, labels, at"
_LOSS = "what a session has read can't be stored for next time"


class SqliteSources:
    def __init__(self, database: Database, thread: DatabaseThread) -> None:
        """Uses `database` for what is needed at once, and `thread` for the rest."""
        self._database = database
        self._thread = thread
        self.forgotten = ForgottenSources(database.path.parent)

    def load(self) -> dict[Holder, list[Source]]:
        with self._database.use() as connection:
            rows = connection.execute(
                f"SELECT principal, holder, {_COLUMNS} FROM flow_sources ORDER BY at"  # noqa: S608
            ).fetchall()
        found: dict[Holder, list[Source]] = {}
        for principal, holder, *row in rows:
            found.setdefault((PrincipalId(principal), holder), []).append(_source(row, holder))
        self._thread.post(_forget_old, _LOSS)
        return found

    def add(self, holder: Holder, sources: Sequence[Source]) -> None:
        rows = [(*holder, it.server, it.tool, it.title, " ".join(sorted(it.labels)), it.at) for it in sources]
        self._post(
            f"INSERT OR REPLACE INTO flow_sources (principal, holder, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            rows,
        )

    def remove(self, holder: Holder, sources: Sequence[Source]) -> None:
        rows = [(*holder, it.server, it.tool) for it in sources]
        self._post("DELETE FROM flow_sources WHERE (principal, holder, server, tool) = (?, ?, ?, ?)", rows)

    async def forget(self, holders: Sequence[Holder]) -> None:
        """Forget what these have read, here and in every running product. Raises `JournalUnavailable`: it can't be
        deleted; `OSError`: running products can't be notified."""

        def delete(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM flow_sources WHERE (principal, holder) = (?, ?)", holders)

        await self._thread.run(delete, is_durable=True)
        # Last: what a product reads after it has noticed must not be deleted.
        self.forgotten.note(holders)

    def of(self, holder: Holder) -> Sequence[Source]:
        """The sources that products on the same store have read under this name. Raises `JournalUnavailable`: the store
        can't be used."""
        statement = f"SELECT {_COLUMNS} FROM flow_sources WHERE (principal, holder) = (?, ?) ORDER BY at"  # noqa: S608
        with self._database.use() as connection:
            return [_source(row, holder[1]) for row in connection.execute(statement, holder)]

    def _post(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        if rows := list(rows):
            self._thread.post(lambda connection: connection.executemany(statement, rows), _LOSS)


def _forget_old(connection: sqlite3.Connection) -> None:
    oldest = time.time() - _SESSION_DAYS * 86_400
    connection.execute("DELETE FROM flow_sources WHERE holder != ? AND at < ?", (WORKSPACE, oldest))
    connection.execute(
        "DELETE FROM flow_sources WHERE holder != ?"
        " AND at < (SELECT at FROM flow_sources ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (WORKSPACE, _MAX_ROWS),
    )


def _source(row: Sequence[Any], holder: str) -> Source:
    server, tool, title, labels, at = row
    return Source(server, tool, title, frozenset(labels.split()), at, is_in_workspace=holder == WORKSPACE)


class ForgottenSources:
    """A file beside the database that lists whose sources the person has forgotten, and when. Running servers hold
    sources in memory. They look whether the file has changed before they add a source or decide by one, which costs
    less than a query; so nothing that is read after a server has noticed is forgotten with the rest."""

    def __init__(self, folder: Path) -> None:
        """Counts the present content as noticed."""
        self._path = folder / _FORGOTTEN_FILE
        self._stamp = FileStamp.at(self._path)
        self._times = self._read()

    def take(self) -> list[Holder]:
        """Those whose sources were forgotten since this was asked last."""
        if (stamp := FileStamp.at(self._path)) == self._stamp:
            return []
        before, self._times = self._times, self._read()
        self._stamp = stamp
        return [holder for holder, at in self._times.items() if before.get(holder) != at]

    def note(self, holders: Iterable[Holder]) -> None:
        """Have every product forget these. Raises `OSError`: the file can't be written."""
        times = self._read() | dict.fromkeys(holders, time.time())
        newest = sorted(times.items(), key=lambda it: it[1])[-_MAX_FORGOTTEN:]
        replace_private(self._path, json.dumps([[*holder, at] for holder, at in newest]).encode())

    def _read(self) -> dict[Holder, float]:
        try:
            rows = json.loads(self._path.read_bytes())
            return {(PrincipalId(principal), holder): float(at) for principal, holder, at in rows}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            logger.warning("nothing is forgotten of what sessions have read: %s", error)
            return {}
