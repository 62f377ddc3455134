"""Sources that sessions have read, on SQLite. Changes are queued, and done before what is queued later."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from codemode_server.domain.flows import SHARED, Holder, LeftPrograms, RunningProgram, Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import Ownership
from codemode_server.support.file_stamps import FileStamp
from codemode_server.support.private_files import NotPrivate, replace_private

logger = logging.getLogger(__name__)

_FORGOTTEN_FILE = "forgotten-sources.json"
_MAX_FORGOTTEN = 1_000
_SESSION_DAYS = 30.0
"""Retention of a session's sources, for executions that are resumed."""
_MAX_ROWS = 20_000
_COLUMNS = "server, tool, title, labels, at"
_LOSS = "what a session has read can't be stored for next time"


class SqliteSources:
    """The product's own running programs are told from those of others by the name of their owner."""

    def __init__(self, database: Database, thread: DatabaseThread, ownership: Ownership | None = None) -> None:
        """Uses `database` for what is needed at once, and `thread` for the rest."""
        self._database = database
        self._thread = thread
        self._ownership = ownership or Ownership(database.path.parent)
        self.forgotten = ForgottenSources(database.path.parent)

    def load(self) -> dict[Holder, list[Source]]:
        with self._database.begin(reads=True) as connection:
            rows = connection.exec_driver_sql(
                f"SELECT principal, holder, {_COLUMNS} FROM flow_sources ORDER BY at"  # noqa: S608
            ).fetchall()
        found: dict[Holder, list[Source]] = {}
        for principal, holder, *row in rows:
            found.setdefault((PrincipalId(principal), holder), []).append(_source(row, holder))
        self._thread.post(_forget_old, _LOSS)
        return found

    def left_programs(self) -> LeftPrograms:
        try:
            others = self._ownership.others()
        except (NotPrivate, OSError):  # whether they run is unknown, so their rows stay
            return LeftPrograms((), is_alone=False)
        with self._database.begin(reads=True) as connection:
            rows = connection.exec_driver_sql(
                "SELECT run, execution_id, principal, holder, began_at FROM flow_programs"
            )
            programs = [
                RunningProgram(ExecutionId(it), (PrincipalId(principal), holder), at)
                for run, it, principal, holder, at in rows
                if run not in others
            ]
        return LeftPrograms(programs, is_alone=not others)

    def add(self, holder: Holder, sources: Sequence[Source]) -> None:
        rows = [(*holder, it.server, it.tool, it.title, " ".join(sorted(it.labels)), it.at) for it in sources]
        self._post(
            f"INSERT OR REPLACE INTO flow_sources (principal, holder, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            rows,
        )

    def remove(self, holder: Holder, sources: Sequence[Source]) -> None:
        rows = [(*holder, it.server, it.tool) for it in sources]
        self._post("DELETE FROM flow_sources WHERE (principal, holder, server, tool) = (?, ?, ?, ?)", rows)

    def begin(self, program: RunningProgram) -> None:
        row = (program.execution_id, *program.holder, program.began_at, self._ownership.name() or "")
        self._post("INSERT OR REPLACE INTO flow_programs VALUES (?, ?, ?, ?, ?)", [row])

    def end(self, execution_id: ExecutionId) -> None:
        self._post("DELETE FROM flow_programs WHERE execution_id = ?", [(execution_id,)])

    async def forget(self, holders: Sequence[Holder]) -> None:
        """Forget what these have read, here and in every running product. Raises `JournalUnavailable`: it can't be
        deleted; `OSError`: running products can't be notified."""

        def delete(connection: Connection) -> None:
            connection.exec_driver_sql("DELETE FROM flow_sources WHERE (principal, holder) = (?, ?)", holders)

        await self._thread.run(delete, is_durable=True)
        # Last: what a product reads after it has noticed must not be deleted.
        self.forgotten.note(holders)

    async def of_session(self, holder: Holder) -> Sequence[Source]:
        """Sources that a session is known to have read, in any product on the same store. Raises `JournalUnavailable`:
        the store can't be used."""
        statement = f"SELECT {_COLUMNS} FROM flow_sources WHERE (principal, holder) = (?, ?) ORDER BY at"  # noqa: S608
        return [_source(row, holder[1]) for row in await self._thread.rows(statement, holder)]

    def shared_with(self, holder: Holder) -> Sequence[tuple[Holder, Source]]:
        """The sources that products on the same store have read under this name, or may have written to its /workspace.
        Raises `JournalUnavailable`: the store can't be used."""
        principal, run = holder[0], self._ownership.name() or ""
        with self._database.begin(reads=True) as connection:
            rows = connection.exec_driver_sql(
                f"SELECT holder, {_COLUMNS} FROM flow_sources WHERE principal = ? AND (holder IN (?, ?, ?) OR holder IN"  # noqa: S608
                " (SELECT holder FROM flow_programs WHERE principal = ? AND run != ?)) ORDER BY at",
                (*holder, *SHARED, principal, run),
            ).fetchall()
        return [((principal, its), _source(row, its)) for its, *row in rows]

    def _post(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        if rows := list(rows):
            self._thread.post(lambda connection: connection.exec_driver_sql(statement, rows), _LOSS)


def _forget_old(connection: Connection) -> None:
    oldest = time.time() - _SESSION_DAYS * 86_400
    connection.exec_driver_sql("DELETE FROM flow_sources WHERE holder NOT IN (?, ?) AND at < ?", (*SHARED, oldest))
    connection.exec_driver_sql("DELETE FROM flow_programs WHERE began_at < ?", (oldest,))
    connection.exec_driver_sql(
        "DELETE FROM flow_sources WHERE holder NOT IN (?, ?)"
        " AND at < (SELECT at FROM flow_sources ORDER BY at DESC LIMIT 1 OFFSET ?)",
        (*SHARED, _MAX_ROWS),
    )


def _source(row: Sequence[Any], holder: str) -> Source:
    server, tool, title, labels, at = row
    return Source(server, tool, title, frozenset(labels.split()), at, is_in_workspace=holder in SHARED)


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
