"""The one SQLite file of an installation: opening it, and bringing its schema up to date.

Several products may have it open at once (two hosts on one machine); WAL and a busy timeout make that work. What
is used on the event loop's thread is quick: one insert costs tens of microseconds. Journal, audit, vectors and upkeep
work in threads, each with a connection of its own, since transactions belong to connections.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

from codemode_server.domain.errors import JournalDamaged, JournalFull, JournalUnavailable
from codemode_server.private_files import NotPrivate, check_file, open_private, private_folder
from codemode_server.processes.file_lock import held
from codemode_server.storage.reserve import Reserve
from codemode_server.storage.unusable import ELSEWHERE, damaged, full, newer, unavailable

logger = logging.getLogger(__name__)

OnDamage = Literal["refuse", "set_aside"]
T = TypeVar("T")

FILE_NAME = "codemode.db"
FILE_SUFFIXES = ("", "-wal", "-shm")
"""Of the files that make up the database."""
_WAL_BYTES = 4 * 2**20
"""What the file of changes is cut back to after it was longer."""
_BUSY_SECONDS = 5.0
"""How long another product's lock is waited for."""

_MIGRATIONS = (
    """
    CREATE TABLE executions (
        execution_id TEXT PRIMARY KEY,
        session_id   TEXT NOT NULL,
        customer     TEXT NOT NULL,
        level        TEXT NOT NULL,
        code         TEXT,
        started_at   REAL NOT NULL,
        settled_at   REAL,
        status       TEXT NOT NULL,
        error        TEXT,
        calls        INTEGER,
        milliseconds REAL
    );
    CREATE INDEX executions_by_time ON executions (started_at);
    CREATE TABLE calls (
        execution_id TEXT NOT NULL REFERENCES executions,
        seq          INTEGER NOT NULL,
        server       TEXT NOT NULL,
        tool         TEXT NOT NULL,
        verdict      TEXT NOT NULL,
        reason       TEXT NOT NULL,
        arguments    TEXT,
        started_at   REAL NOT NULL,
        settled_at   REAL,
        status       TEXT NOT NULL,
        milliseconds REAL,
        result_bytes INTEGER,
        result       TEXT,
        error        TEXT,
        PRIMARY KEY (execution_id, seq)
    ) WITHOUT ROWID;
    CREATE TABLE listings (
        upstream    TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        listing     TEXT NOT NULL,
        stored_at   REAL NOT NULL,
        PRIMARY KEY (upstream, fingerprint)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE shapes (
        upstream  TEXT NOT NULL,
        tool      TEXT NOT NULL,
        schemas   TEXT NOT NULL,
        observed  TEXT NOT NULL,
        stored_at REAL NOT NULL,
        PRIMARY KEY (upstream, tool, schemas)
    );
    """,
    """
    CREATE TABLE vectors (
        model   TEXT NOT NULL,
        key     BLOB NOT NULL,
        vector  BLOB NOT NULL,
        used_at REAL NOT NULL,
        PRIMARY KEY (model, key)
    );
    CREATE INDEX vectors_by_time ON vectors (used_at);
    """,
    """
    CREATE TABLE habits (
        server  TEXT NOT NULL,
        tool    TEXT NOT NULL,
        uses    REAL NOT NULL,
        used_at REAL NOT NULL,
        PRIMARY KEY (server, tool)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE executions ADD COLUMN owner TEXT;
    ALTER TABLE executions ADD COLUMN bytes INTEGER;
    CREATE INDEX executions_running ON executions (owner) WHERE status = 'running';
    CREATE INDEX executions_settled ON executions (settled_at, bytes);
    CREATE INDEX executions_not_measured ON executions (settled_at) WHERE bytes IS NULL;
    """,
    """
    CREATE TABLE journal_executions (
        execution_id TEXT PRIMARY KEY,
        principal    TEXT NOT NULL,
        session_id   TEXT NOT NULL,
        is_ephemeral INTEGER NOT NULL,
        level        TEXT,
        status       TEXT NOT NULL,
        started_at   REAL NOT NULL,
        ended_at     REAL,
        code         BLOB,
        error        BLOB,
        calls        INTEGER,
        milliseconds REAL,
        owner        TEXT,
        bytes        INTEGER
    );
    CREATE INDEX journal_by_principal ON journal_executions (principal, started_at);
    CREATE INDEX journal_running ON journal_executions (owner) WHERE ended_at IS NULL;
    CREATE INDEX journal_ended ON journal_executions (ended_at, bytes);
    CREATE INDEX journal_not_measured ON journal_executions (ended_at) WHERE bytes IS NULL;
    CREATE TABLE journal_calls (
        execution_id TEXT NOT NULL REFERENCES journal_executions,
        seq          INTEGER NOT NULL,
        server       TEXT NOT NULL,
        tool         TEXT NOT NULL,
        occurrence   INTEGER NOT NULL,
        arguments    BLOB,
        decision     TEXT NOT NULL,
        reason       TEXT NOT NULL,
        detail       BLOB,
        started_at   REAL NOT NULL,
        status       TEXT NOT NULL,
        milliseconds REAL,
        result_bytes INTEGER,
        result       BLOB,
        error        BLOB,
        PRIMARY KEY (execution_id, seq)
    );
    CREATE TABLE audit (
        number       INTEGER PRIMARY KEY,
        kind         TEXT NOT NULL,
        principal    TEXT NOT NULL,
        session_id   TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        at           REAL NOT NULL,
        seq          INTEGER,
        server       TEXT,
        tool         TEXT,
        decision     TEXT,
        reason       TEXT,
        status       TEXT,
        milliseconds REAL,
        payload      TEXT,
        error        TEXT,
        digest       TEXT NOT NULL,
        bytes        INTEGER NOT NULL
    );
    CREATE INDEX audit_by_execution ON audit (principal, execution_id);
    CREATE INDEX audit_by_size ON audit (number, at, bytes);
    CREATE TABLE audit_anchor (
        number INTEGER NOT NULL,
        digest TEXT NOT NULL
    );
    INSERT INTO audit_anchor VALUES (0, '');
    """,
)


_TABLES = {"executions", "calls", "listings", "shapes", "vectors", "habits"}
_TABLES |= {"journal_executions", "journal_calls", "audit", "audit_anchor"}


class Database:
    """An open database. Every failure to use it is a `JournalUnavailable` that names the file and the remedy.

    A file that was moved or removed meanwhile is noticed: from then on a new one at the same place is used.
    """

    def __init__(self, folder: Path, *, on_damage: OnDamage = "refuse") -> None:
        """Open or create the database in `folder`. `on_damage`: what becomes of a file that is damaged.

        Raises:
            JournalUnavailable: it can't be opened.
        """
        self.path = folder / FILE_NAME
        self.reserve = Reserve(folder)
        self._on_damage = on_damage
        self._is_closed = False
        self._damage: tuple[tuple[int, int], JournalDamaged] | None = None
        """The file that SQLite met damage in while it was used, and what it said."""
        self._connection = self._open(is_start=True)
        self._identity = _identity(self.path)

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one statement or transaction.

        Raises:
            JournalUnavailable: if SQLite fails: full disk, lock held for 5 seconds, damaged or read-only file.
        """
        if not self._is_closed and not self._connection.in_transaction and self._identity != _identity(self.path):
            self._reopen()
        try:
            yield self._connection
        except sqlite3.Error as error:
            problem = unavailable(self.path, error)
            if isinstance(problem, JournalDamaged):
                self._note_damage(problem)
            raise problem from error

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """The connection with the lock on the file, for changes of which all are made or none.

        The lock comes before what is read, so that another product's news are not written over. For what can be made
        anew: the last 4 MiB of a disk are left to the record.

        Raises:
            JournalUnavailable: as `use`.
        """
        if self.reserve.is_needed:
            raise full(self.path)
        with self.use() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def write(self, statement: str, values: tuple[object, ...]) -> int:
        """Execute one statement of the record; gives how many rows it changed.

        Raises:
            JournalUnavailable: as `use`.
        """
        return self.with_reserve(lambda connection: connection.execute(statement, values).rowcount)

    def with_reserve(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Do a step of the record, or one that frees space, for which the reserve is given up if the disk is full.

        Raises:
            JournalUnavailable: as `use`.
        """
        while True:
            try:
                with self.use() as connection:
                    return step(connection)
            except JournalFull:
                if not self.reserve.give_up():
                    raise

    def close(self) -> None:
        self._is_closed = True
        with suppress(sqlite3.Error):
            self._connection.close()

    def _open(self, *, is_start: bool) -> sqlite3.Connection:
        while True:
            try:
                if self._damage is not None:
                    return self._opened_anew(is_start=is_start)
                return _opened(self.path, is_start=is_start)
            except JournalFull:
                if not self.reserve.give_up():
                    raise
            except JournalDamaged:
                if self._on_damage != "set_aside":
                    raise
                return self._opened_anew(is_start=is_start)

    def _opened_anew(self, *, is_start: bool) -> sqlite3.Connection:
        """Rename the damaged file and make a new one, unless another product was quicker."""
        try:
            with held(self.path.with_name(f"{FILE_NAME}.lock")):
                if self._damage is not None and self._damage[0] == _identity(self.path):
                    return self._set_aside_for(self._damage[1])
                try:
                    return _opened(self.path, is_start=is_start)
                except JournalDamaged as damage:
                    return self._set_aside_for(damage)
        except OSError as error:
            raise unavailable(self.path, error) from error

    def _set_aside_for(self, damage: JournalDamaged) -> sqlite3.Connection:
        logger.warning("%s It was set aside as %s.", damage, self._set_aside())
        return _opened(self.path, is_start=False)

    def _set_aside(self) -> Path:
        """Under a name of its own, which `set_aside` finds; the caller has the lock, so no other product takes it."""
        aside = self.path
        while any(os.path.lexists(aside.with_name(aside.name + suffix)) for suffix in FILE_SUFFIXES):
            now = time.time()
            at = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{int(now % 1 * 1e6):06}"
            aside = self.path.with_name(f"{FILE_NAME}.damaged-{at}")
        # The file itself comes last: without it, whoever opens the database makes a new one.
        for suffix in reversed(FILE_SUFFIXES):
            with suppress(FileNotFoundError):
                self.path.with_name(FILE_NAME + suffix).rename(aside.with_name(aside.name + suffix))
        _damage_mark(self.path).unlink(missing_ok=True)
        return aside

    def _reopen(self) -> None:
        logger.warning("the record %s was moved, removed or damaged; what is there now is used", self.path)
        connection = self._open(is_start=False)
        with suppress(sqlite3.Error):
            self._connection.close()
        self._connection, self._identity, self._damage = connection, _identity(self.path), None

    def _note_damage(self, problem: JournalDamaged) -> None:
        """Have the file examined at the next start, since not every damage is met at once. Where it may be set aside,
        the next use does that on SQLite's word: to examine it now would hold up the event loop."""
        with suppress(OSError):
            _damage_mark(self.path).touch(0o600)
        if self._on_damage == "set_aside" and self._identity is not None:
            self._damage, self._identity = (self._identity, problem), None


def set_aside(folder: Path) -> list[str]:
    """The names of the damaged databases that were set aside in a folder, the oldest first."""
    name = re.compile(rf"({re.escape(FILE_NAME)}\.damaged-\d{{8}}-\d{{6}}(?:-\d{{6}})?)(?:-wal|-shm)?")
    return sorted({found[1] for path in folder.iterdir() if (found := name.fullmatch(path.name))})


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at the path; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - each use of the database asks, and `Path.stat` takes twice as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _damage_mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.damage-met")


def _opened(path: Path, *, is_start: bool) -> sqlite3.Connection:
    """A connection to a sound database of this version; where damage was met before, a start examines all of it.

    Raises:
        JournalUnavailable: there can't be one.
    """
    try:
        connection = _connect(path)
        try:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            _migrate(connection, path)
            _check(connection, path, is_start=is_start)
        except BaseException:
            connection.close()
            raise
    except NotPrivate as error:
        raise JournalUnavailable(f"the record {path} can't be used: {error}; or {ELSEWHERE}") from error
    except (OSError, sqlite3.Error) as error:
        raise unavailable(path, error) from error
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file itself, made if it is not there."""
    private_folder(path.parent, is_readable=True)
    for suffix in ("", "-wal", "-shm", "-journal", ".lock", ".damage-met"):
        check_file(path.with_name(FILE_NAME + suffix))
    # SQLite would follow a link, and make a file that others can read. Closing a file that is there would end the locks
    # of this process's other connections.
    with suppress(FileExistsError):
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Two products that open a new record at once are in one another's way here, where SQLite does not wait."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA page_count").fetchone() == (0,):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can only be set before anything is written
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(_MIGRATIONS):
        raise newer(path, version)
    for number, script in enumerate(_MIGRATIONS[version:], start=version + 1):
        # If the other product migrated meanwhile, its version is seen inside the lock and nothing is done twice.
        connection.execute("BEGIN IMMEDIATE")
        (current,) = connection.execute("PRAGMA user_version").fetchone()
        if current < number:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, path: Path, *, is_start: bool) -> None:
    """What is quick to see of damage, and at a start, which is in a thread, all of it where some was met before: two
    seconds for each GB. Only `integrity_check` compares the indexes with their tables.

    Raises:
        JournalDamaged: there is some.
    """
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := sorted(_TABLES - there):
        raise damaged(path, f"there is no table {missing[0]!r}")
    mark = _damage_mark(path)
    if is_start and mark.exists():
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise damaged(path, str(found))
        mark.unlink(missing_ok=True)
