"""Bounds the state folder: ends executions of killed processes, deletes old and surplus rows, and frees disk space.

It works in a thread with its own connection, in transactions of a few milliseconds with pauses between them, since
journal and audit write at the same time. Several processes may do this at once. Running executions are never deleted.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread
from sqlalchemy import Connection

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.cache import delete_old_rows
from codemode_server.storage.database import Database, placeholders
from codemode_server.storage.interrupted import Ownership, settle_interrupted
from codemode_server.storage.sqlite_audit import delete_audit_rows
from codemode_server.support.private_files import NotPrivate

logger = logging.getLogger(__name__)
_PROBLEMS = (JournalUnavailable, NotPrivate, OSError)

_DAY = 86_400.0
_INTERVAL_S = 3_600.0
_PAUSE_S = 0.005
_STEPS_BETWEEN_CHECKS = 10_000
"""Steps of SQLite's virtual machine, about a millisecond, after which a statement stops if the server is ending."""
_BATCH_ROWS = 20
_LOG_PAGES = 100
_BATCH_PAGES = 128
_FREE_PAGES = 256
"""Free pages that stay in the file for the next writes."""

Deletion: TypeAlias = Callable[[float, Connection], int]
"""Deletes some rows of a feature, those from before a time and surplus ones; returns how many."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Maximum age and size of a store; 0 for no limit."""

    days: float
    bytes: int


class Upkeep:
    def __init__(
        self,
        folder: Path,
        ownership: Ownership,
        audit: Retention,
        journal: Retention = Retention(0, 0),
        *,
        deletions: Sequence[Deletion] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._ownership = ownership
        self._audit = audit
        self._journal = journal
        self._deletions = deletions
        self._clock = clock
        self._written = 0
        self._woken = anyio.Event()
        self._is_ending = threading.Event()

    def set_retention(self, audit: Retention, journal: Retention) -> None:
        """Change the limits and begin a pass. Call it on the event loop."""
        self._audit, self._journal = audit, journal
        self._woken.set()

    def note_written(self, count: int) -> None:
        """Count added bytes; after a sixteenth of the smaller limit a pass begins. Call it on the event loop."""
        self._written += count
        bounds = [retention.bytes for retention in (self._audit, self._journal) if retention.bytes]
        if bounds and self._written > min(bounds) // 16:
            self._written = 0
            self._woken.set()

    async def run(self) -> None:
        """Do a pass now, each hour, and whenever much was written."""
        while True:
            await anyio.to_thread.run_sync(self.pass_once)
            with anyio.move_on_after(_INTERVAL_S):
                await self._woken.wait()
            self._woken = anyio.Event()

    def end(self) -> None:
        """End the work in threads within milliseconds; an interrupted statement changes nothing."""
        self._is_ending.set()

    def pass_once(self) -> None:
        problems: dict[str, None] = {}
        try:
            with closing(Database(self._folder)) as database:
                with database.connect() as connection:  # the only one of this pool
                    raw = _raw(connection)
                    # Otherwise a commit of the journal would have to write a long log into the file.
                    raw.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
                    raw.set_progress_handler(self._is_ending.is_set, _STEPS_BETWEEN_CHECKS)
                for step in self._steps(database):
                    try:
                        step()
                    except _PROBLEMS as error:
                        problems[str(error)] = None
                    if self._is_ending.is_set():
                        return
        except _PROBLEMS as error:
            problems[str(error)] = None
        for problem in problems:
            logger.warning("old records can't be deleted: %s", problem)

    def _steps(self, database: Database) -> Iterator[Callable[[], object]]:
        yield partial(settle_interrupted, database, self._ownership, self._clock())
        yield partial(self._delete_executions, database)
        # A product that was taken for dead may go on calling after its execution was deleted.
        orphaned = "execution_id NOT IN (SELECT execution_id FROM journal_executions)"
        yield partial(self._delete, database, "journal_calls", "execution_id, seq", orphaned, ())
        yield partial(self._delete, database, "approvals", "approval_id", orphaned, ())
        yield partial(self._delete_audit, database)
        before = self._clock() - self._audit.days * _DAY if self._audit.days else 0.0
        for delete in self._deletions:
            yield partial(self._in_batches, partial(database.transact, partial(delete, before)))
        old_cached = partial(delete_old_rows, now=self._clock(), most=_BATCH_ROWS)
        yield partial(self._in_batches, partial(database.transact, old_cached))
        yield partial(self._shrink, database)

    def _in_batches(self, delete: Callable[[], int]) -> None:
        while not self._is_ending.is_set() and delete():
            self._is_ending.wait(_PAUSE_S)

    def _delete(self, database: Database, table: str, key: str, where: str, values: Sequence[object]) -> None:
        statement = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT ?)"  # noqa: S608
        self._in_batches(partial(database.write, statement, (*values, _BATCH_ROWS)))

    def _delete_executions(self, database: Database) -> None:
        limits = [self._clock() - self._journal.days * _DAY] if self._journal.days else []
        if self._journal.bytes and (until := _too_much(database, self._journal.bytes)) is not None:
            limits.append(until)

        def delete() -> int:
            with database.begin(reads=True) as connection:
                rows = connection.exec_driver_sql(
                    "SELECT execution_id FROM journal_executions WHERE ended_at <= ? ORDER BY ended_at LIMIT ?",
                    (max(limits), _BATCH_ROWS),
                ).fetchall()
            names = tuple(name for (name,) in rows)
            which = f"execution_id IN ({placeholders(len(names))})"
            self._delete(database, "journal_calls", "execution_id, seq", which, names)
            self._delete(database, "approvals", "approval_id", which, names)
            self._delete(database, "journal_executions", "execution_id", which, names)
            return len(names)

        if limits:
            self._in_batches(delete)

    def _delete_audit(self, database: Database) -> None:
        limits = []
        with database.begin(reads=True) as connection:
            total, last = connection.exec_driver_sql("SELECT TOTAL(bytes), MAX(number) FROM audit").fetchone()
            if self._audit.days:
                recent = connection.exec_driver_sql(
                    "SELECT MIN(number) FROM audit WHERE at >= ?", (self._clock() - self._audit.days * _DAY,)
                ).fetchone()[0]
                limits.append(recent - 1 if recent else last or 0)
            if self._audit.bytes and total > self._audit.bytes:
                newest_first = connection.exec_driver_sql("SELECT number, bytes FROM audit ORDER BY number DESC")
                limits.append(int(_beyond(newest_first, self._audit.bytes * 9 // 10) or 0))
                newest_first.close()  # while it is open, SQLite refuses to write once others have written
        if limits:
            delete = partial(delete_audit_rows, until=max(limits), limit=_BATCH_ROWS)
            self._in_batches(partial(database.transact, delete))

    def _shrink(self, database: Database) -> None:
        with database.connect() as connection:
            raw = _raw(connection)

            def free_pages() -> int:
                (count,) = raw.execute("PRAGMA freelist_count").fetchone()
                if count <= _FREE_PAGES:
                    return 0
                # `execute` would step once and free one page, since the statement returns rows without columns.
                raw.executescript(f"PRAGMA incremental_vacuum({_BATCH_PAGES})")
                return _BATCH_PAGES

            self._in_batches(free_pages)
            raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _raw(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw


def _too_much(database: Database, most: int) -> float | None:
    """Executions that ended at this time or earlier have to be deleted to leave nine tenths of `most` bytes; None if
    they fit."""
    with database.begin(reads=True) as connection:
        (total,) = connection.exec_driver_sql(
            "SELECT SUM(bytes) FROM journal_executions WHERE ended_at IS NOT NULL"
        ).fetchone()
        if (total or 0) <= most:
            return None
        # The newest stays, however large, so that no program can have its own record deleted.
        newest_first = (
            "SELECT ended_at, COALESCE(bytes, 0) FROM journal_executions WHERE ended_at IS NOT NULL"
            " ORDER BY ended_at DESC LIMIT -1 OFFSET 1"
        )
        return _beyond(connection.exec_driver_sql(newest_first), most * 9 // 10)


def _beyond(newest_first: Iterable[tuple[float, int]], most_bytes: int) -> float | None:
    total = 0
    for at, size in newest_first:
        total += size
        if total > most_bytes:
            return at
    return None
