"""Opens the one SQLite file of an installation, and handles its damage, its removal and a full disk.

Several products may have it open at once (two hosts on one machine); WAL and a busy timeout make that work. One thread
and connection write journal, audit, listings, learned types and usage statistics; vectors and the upkeep have a
connection each, since transactions belong to connections. The connection of the event loop only reads.
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
from codemode_server.storage.migrations import TABLES, migrate
from codemode_server.storage.reserve import Reserve
from codemode_server.storage.unusable import ELSEWHERE, damaged, full, unavailable

logger = logging.getLogger(__name__)

OnDamage = Literal["refuse", "set_aside"]
T = TypeVar("T")

FILE_NAME = "codemode.db"
FILE_SUFFIXES = ("", "-wal", "-shm")
"""Suffixes of the files that make up the database."""
_WAL_BYTES = 4 * 2**20
"""Size to which SQLite truncates the write-ahead log after a checkpoint."""
_BUSY_SECONDS = 5.0
"""How long to wait for the lock of another product."""


class Database:
    """An open database. Each failure raises a `JournalUnavailable` that names the file and the remedy.

    If the file was moved or removed, the next use opens or creates the one at the same path.
    """

    def __init__(self, folder: Path, *, on_damage: OnDamage = "refuse") -> None:
        """Open or create the database in `folder`. `on_damage`: what to do with a damaged file.

        Raises:
            JournalUnavailable: it cannot be opened.
        """
        self.path = folder / FILE_NAME
        self.reserve = Reserve(folder)
        self._on_damage = on_damage
        self._is_closed = False
        self._damage: tuple[tuple[int, int], JournalDamaged] | None = None
        """Identity of a file in which SQLite found damage while it was used, and the error."""
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
        """The connection in a transaction, for data that can be recreated; not for journal and audit.

        The file is locked before anything is read, so that changes of another product are not overwritten. The last 4
        MiB of a disk are left for journal and audit.

        Raises:
            JournalUnavailable: as `use`.
        """
        if self.reserve.is_needed:
            raise full(self.path)
        with self.use() as connection, transaction(connection):
            yield connection

    def write(self, statement: str, values: tuple[object, ...]) -> int:
        """Execute one statement of journal or audit; returns the number of changed rows.

        Raises:
            JournalUnavailable: as `use`.
        """
        return self.with_reserve(lambda connection: connection.execute(statement, values).rowcount)

    def transact(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Do a step of journal or audit in a transaction; it may be repeated after a failure.

        Raises:
            JournalUnavailable: as `use`.
        """

        def all_or_nothing(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                return step(connection)

        return self.with_reserve(all_or_nothing)

    def with_reserve(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """Do a step of journal or audit, or one that frees space. If the disk is full, it uses up the reserve.

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
        """Rename the damaged file and make a new one, unless another product has done that already."""
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
        """Rename the files to a new name that `set_aside` finds. The caller holds the lock, so names do not collide."""
        aside = self.path
        while any(os.path.lexists(aside.with_name(aside.name + suffix)) for suffix in FILE_SUFFIXES):
            now = time.time()
            at = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{int(now % 1 * 1e6):06}"
            aside = self.path.with_name(f"{FILE_NAME}.damaged-{at}")
        # The main file comes last: as soon as it is gone, a product that opens the database makes a new one.
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
        """Have the next start check the whole file, since SQLite may not have met all damage. If damaged files are set
        aside, the next use does so without that check, which would block the event loop."""
        with suppress(OSError):
            _damage_mark(self.path).touch(0o600)
        if self._on_damage == "set_aside" and self._identity is not None:
            self._damage, self._identity = (self._identity, problem), None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All changes or none. The file is locked first, so that changes of other products are seen."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def placeholders(count: int) -> str:
    """The text of so many parameters in an SQL statement: `?, ?, ?`."""
    return ", ".join("?" * count)


def set_aside(folder: Path) -> list[str]:
    """Names of the damaged databases that were set aside in a folder, oldest first."""
    name = re.compile(rf"({re.escape(FILE_NAME)}\.damaged-\d{{8}}-\d{{6}}(?:-\d{{6}})?)(?:-wal|-shm)?")
    return sorted({found[1] for path in folder.iterdir() if (found := name.fullmatch(path.name))})


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file is at the path; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - done at each use, and `Path.stat` takes twice as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _damage_mark(path: Path) -> Path:
    return path.with_name(f"{path.name}.damage-met")


def _opened(path: Path, *, is_start: bool) -> sqlite3.Connection:
    """A connection to a sound database of this version; if damage was found earlier, a start checks all of it.

    Raises:
        JournalUnavailable: the file cannot be used.
    """
    try:
        connection = _connect(path)
        try:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            migrate(connection, path)
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
    """Connect to the file, which is created privately if it is missing."""
    private_folder(path.parent, is_readable=True)
    for suffix in ("", "-wal", "-shm", "-journal", ".lock", ".damage-met"):
        check_file(path.with_name(FILE_NAME + suffix))
    # SQLite would follow a link, and make a file that others can read. An existing file is not opened here: closing it
    # would release the locks of this process's other connections.
    with suppress(FileExistsError):
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL, with retries: SQLite does not wait for another product that does the same at this moment."""
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


def _check(connection: sqlite3.Connection, path: Path, *, is_start: bool) -> None:
    """Check that the tables exist; at a start also the whole file, if damage was found earlier (two seconds per GB).

    Only `integrity_check` compares the indexes with their tables.

    Raises:
        JournalDamaged: the file is damaged.
    """
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if missing := sorted(TABLES - there):
        raise damaged(path, f"there is no table {missing[0]!r}")
    mark = _damage_mark(path)
    if is_start and mark.exists():
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise damaged(path, str(found))
        mark.unlink(missing_ok=True)
