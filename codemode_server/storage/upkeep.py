"""Bounds the state folder: ends executions of killed products, deletes old and surplus rows, and frees disk space.

It works in a thread with its own connection, in transactions of a few milliseconds with pauses between them, since
journal and audit write at the same time. Several products may do this at once. Running executions are never deleted.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVarTuple

import anyio
import anyio.to_thread

from codemode_server.domain.errors import JournalFull, JournalUnavailable
from codemode_server.private_files import NotPrivate
from codemode_server.storage.audit_chain import delete_audit_rows
from codemode_server.storage.database import FILE_SUFFIXES, Database, placeholders, set_aside
from codemode_server.storage.forgotten_tokens import delete_forgotten_tokens
from codemode_server.storage.interrupted import settle_interrupted
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.reserve import Reserve
from codemode_server.storage.sqlite_savings import delete_savings, last_to_delete

logger = logging.getLogger(__name__)
Ts = TypeVarTuple("Ts")

_DAY = 86_400.0
_EVERY_SECONDS = 3_600.0
_RESERVE_SECONDS = 60.0
"""How often the reserve is checked."""
_PAUSE_SECONDS = 0.005
_STEPS_BETWEEN_CHECKS = 10_000
"""Steps of SQLite's virtual machine, about a millisecond, after which a statement stops if the product is ending."""
_EXECUTIONS_AT_ONCE = 20
_ROWS_AT_ONCE = 20
_LOG_PAGES = 100
_PAGES_AT_ONCE = 128
_FREE_PAGES = 256
"""Free pages that stay in the file for the next writes."""
_CONVERTED_BYTES = 32 * 2**20
"""A database of an older version that is at most this large is rewritten, in 0.2 seconds, so that it can shrink."""
_SET_ASIDE = 2
"""Number of the newest damaged databases that are not deleted."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Maximum age and size of a store; 0 for no limit."""

    days: float
    bytes: int


@dataclass(frozen=True, slots=True)
class _Cache:
    """A table whose rows can be recreated, and its limits."""

    table: str
    key: str
    time: str
    content: str
    days: int
    bytes: int | None
    """None if the store itself limits its size."""


CACHES = (
    _Cache("listings", "upstream, fingerprint", "stored_at", "listing", 90, 64 * 2**20),
    _Cache("shapes", "upstream, tool, schemas", "stored_at", "observed", 180, 32 * 2**20),
    _Cache("vectors", "model, key", "used_at", "vector", 90, None),
    _Cache("habits", "server, tool", "used_at", "tool", 365, None),
    _Cache("lone_habits", "server, tool", "used_at", "tool", 365, None),
)


class Upkeep:
    """Does the upkeep of one state folder for one product."""

    def __init__(
        self,
        folder: Path,
        ownership: Ownership,
        audit: Retention,
        journal: Retention = Retention(0, 0),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._ownership = ownership
        self._audit = audit
        self._journal = journal
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
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_reserve)
            while True:
                await anyio.to_thread.run_sync(self.pass_once)
                with anyio.move_on_after(_EVERY_SECONDS):
                    await self._woken.wait()
                self._woken = anyio.Event()

    async def _keep_reserve(self) -> None:
        while True:
            await anyio.to_thread.run_sync(Reserve(self._folder).take, self._is_ending.is_set)
            await anyio.sleep(_RESERVE_SECONDS)

    def end(self) -> None:
        """End the work in threads within milliseconds; an interrupted statement changes nothing."""
        self._is_ending.set()

    def pass_once(self) -> None:
        """Do all steps, also if one fails. Blocks."""
        problems: list[str | None] = []
        try:
            with closing(Database(self._folder)) as database:
                with database.use() as connection:
                    # Otherwise a commit of the journal would have to write a long log into the file.
                    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
                    connection.set_progress_handler(self._is_ending.is_set, _STEPS_BETWEEN_CHECKS)
                problems += [
                    self._problem(self._forget_set_aside),
                    self._problem(self._settle_interrupted, database),
                    self._problem(self._delete_executions, database),
                    self._problem(self._delete_orphans, database),
                    self._problem(self._delete_audit, database),
                    self._problem(self._delete_savings, database),
                    self._problem(delete_forgotten_tokens, database, self._is_ending.wait, _PAUSE_SECONDS),
                    *(self._problem(self._delete_cached, database, cache) for cache in CACHES),
                    self._problem(self._shrink, database),
                ]
        except (JournalUnavailable, NotPrivate, OSError) as error:
            problems.append(str(error))
        for problem in dict.fromkeys(filter(None, problems)):
            logger.warning("old records can't be deleted: %s", problem)

    def _problem(self, step: Callable[[*Ts], None], *args: *Ts) -> str | None:
        """Do a step; returns why it failed, or None if it succeeded or the product is ending."""
        if self._is_ending.is_set():
            return None
        try:
            step(*args)
        except (JournalUnavailable, NotPrivate, OSError) as error:
            return None if self._is_ending.is_set() else str(error)
        return None

    def _settle_interrupted(self, database: Database) -> None:
        settle_interrupted(database, self._ownership, self._clock())

    def _delete_executions(self, database: Database) -> None:
        self._measure(database)
        limits = [self._clock() - self._journal.days * _DAY] if self._journal.days else []
        if self._journal.bytes and (until := _too_much(database, self._journal.bytes)) is not None:
            limits.append(until)
        while limits and not self._is_ending.is_set():
            with database.use() as connection:
                rows = connection.execute(
                    "SELECT execution_id FROM journal_executions WHERE ended_at <= ? ORDER BY ended_at LIMIT ?",
                    (max(limits), _EXECUTIONS_AT_ONCE),
                ).fetchall()
            if not rows:
                return
            which = f"execution_id IN ({placeholders(len(rows))})"
            self._delete(database, "journal_calls", "execution_id, seq", which, _flat(rows))
            self._delete(database, "approvals", "approval_id", which, _flat(rows))
            self._delete(database, "journal_executions", "execution_id", which, _flat(rows))

    def _delete_orphans(self, database: Database) -> None:
        """Delete calls and questions of a running execution that was taken for dead and deleted."""
        where = "execution_id NOT IN (SELECT execution_id FROM journal_executions)"
        self._delete(database, "journal_calls", "execution_id, seq", where, ())
        self._delete(database, "approvals", "approval_id", where, ())

    def _measure(self, database: Database) -> None:
        """Record the size of executions that were marked as interrupted, which have none yet."""
        while not self._is_ending.is_set():
            with database.use() as connection:
                rows = connection.execute(
                    f"SELECT {_EXECUTION_BYTES} + COALESCE((SELECT SUM({_CALL_BYTES}) FROM journal_calls AS made"  # noqa: S608
                    " WHERE made.execution_id = journal_executions.execution_id), 0), execution_id"
                    " FROM journal_executions WHERE bytes IS NULL AND ended_at IS NOT NULL LIMIT ?",
                    (_ROWS_AT_ONCE,),
                ).fetchall()
            if not rows:
                return
            for row in rows:
                database.write("UPDATE journal_executions SET bytes = ? WHERE execution_id = ?", row)
            self._is_ending.wait(_PAUSE_SECONDS)

    def _delete_audit(self, database: Database) -> None:
        """Delete the oldest rows; the rest is still a valid chain."""
        limits = []
        with database.use() as connection:
            total, last = connection.execute("SELECT TOTAL(bytes), MAX(number) FROM audit").fetchone()
            if self._audit.days:
                recent = connection.execute(
                    "SELECT MIN(number) FROM audit WHERE at >= ?", (self._clock() - self._audit.days * _DAY,)
                ).fetchone()[0]
                limits.append(recent - 1 if recent else last or 0)
            if self._audit.bytes and total > self._audit.bytes:
                newest_first = connection.execute("SELECT number, bytes FROM audit ORDER BY number DESC")
                limits.append(int(_beyond(newest_first, self._audit.bytes * 9 // 10) or 0))
                newest_first.close()  # while it is open, SQLite refuses to write once others have written
        count = _ROWS_AT_ONCE
        while limits and count == _ROWS_AT_ONCE and not self._is_ending.is_set():
            count = database.transact(partial(delete_audit_rows, until=max(limits), limit=_ROWS_AT_ONCE))
            self._is_ending.wait(_PAUSE_SECONDS)

    def _delete_savings(self, database: Database) -> None:
        """Delete counts of tokens that are as old as deleted rows of the audit, and surplus ones."""
        before = self._clock() - self._audit.days * _DAY if self._audit.days else 0.0
        with database.use() as connection:
            until = last_to_delete(connection, before)
        count = _ROWS_AT_ONCE
        while count == _ROWS_AT_ONCE and not self._is_ending.is_set():
            count = database.transact(partial(delete_savings, until=until, limit=_ROWS_AT_ONCE))
            self._is_ending.wait(_PAUSE_SECONDS)

    def _delete_cached(self, database: Database, cache: _Cache) -> None:
        """Delete rows that were not used for long, and the oldest ones beyond the size limit."""
        old = self._clock() - cache.days * _DAY
        self._delete(database, cache.table, cache.key, f"{cache.time} < ?", (old,))
        if cache.bytes is None:
            return
        with database.use() as connection:
            until = _beyond(
                connection.execute(
                    f"SELECT {cache.time}, {_size(cache.content)} FROM {cache.table} ORDER BY {cache.time} DESC"  # noqa: S608
                ),
                cache.bytes,
            )
        if until is not None:
            self._delete(database, cache.table, cache.key, f"{cache.time} <= ?", (until,))

    def _delete(self, database: Database, table: str, key: str, where: str, values: Sequence[object]) -> None:
        count = _ROWS_AT_ONCE
        statement = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT ?)"  # noqa: S608
        while count == _ROWS_AT_ONCE and not self._is_ending.is_set():
            count = database.write(statement, (*values, _ROWS_AT_ONCE))
            self._is_ending.wait(_PAUSE_SECONDS)

    def _shrink(self, database: Database) -> None:
        """Return free pages to the disk. A large database of an older version cannot; it reuses them."""
        with suppress(JournalFull), database.use() as connection:
            if not _can_shrink(connection):
                return
            while _pragma(connection, "freelist_count") > _FREE_PAGES and not self._is_ending.is_set():
                database.with_reserve(_free_pages)
                self._is_ending.wait(_PAUSE_SECONDS)
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _forget_set_aside(self) -> None:
        for name in set_aside(self._folder)[:-_SET_ASIDE]:
            for suffix in FILE_SUFFIXES:
                (self._folder / f"{name}{suffix}").unlink(missing_ok=True)


def _can_shrink(connection: sqlite3.Connection) -> bool:
    """Whether the database has free pages to return; a small one of an older version is rewritten first."""
    if _pragma(connection, "auto_vacuum") == 0:
        used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
        if used * _pragma(connection, "page_size") > _CONVERTED_BYTES:
            return False
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
    return _pragma(connection, "freelist_count") > _FREE_PAGES


def _free_pages(connection: sqlite3.Connection) -> None:
    # `execute` would step once and free one page, since the statement returns rows without columns.
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")


def _size(column: str) -> str:
    return f"LENGTH(CAST(COALESCE({column}, '') AS BLOB))"


_EXECUTION_BYTES = f"300 + {_size('code')} + {_size('error')}"
_CALL_BYTES = f"200 + {_size('arguments')} + {_size('result')} + {_size('error')}"
"""SQL for the approximate size of a row, with its fixed-size fields and index entries."""


def _too_much(database: Database, most: int) -> float | None:
    """Executions that ended at this time or earlier have to be deleted to leave nine tenths of `most` bytes; None if
    they fit."""
    with database.use() as connection:
        (total,) = connection.execute("SELECT SUM(bytes) FROM journal_executions WHERE ended_at IS NOT NULL").fetchone()
        if (total or 0) <= most:
            return None
        # The newest stays, however large, so that no program can have its own record deleted.
        newest_first = (
            "SELECT ended_at, COALESCE(bytes, 0) FROM journal_executions WHERE ended_at IS NOT NULL"
            " ORDER BY ended_at DESC LIMIT -1 OFFSET 1"
        )
        return _beyond(connection.execute(newest_first), most * 9 // 10)


def _beyond(newest_first: Iterable[tuple[float, int]], most_bytes: int) -> float | None:
    """The time of the first row that does not fit; None if all fit."""
    total = 0
    for at, size in newest_first:
        total += size
        if total > most_bytes:
            return at
    return None


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _flat(rows: Sequence[tuple[str]]) -> tuple[str, ...]:
    return tuple(value for (value,) in rows)
