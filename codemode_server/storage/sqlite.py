"""Opens the one SQLite file of an installation, and explains why it cannot be used.

Several processes may have it open at once (two hosts on one machine); WAL and a busy timeout make that work. A file of
another version is set aside.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import QueuePool
from sqlalchemy.schema import CreateIndex, CreateTable

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.processes.file_lock import held
from codemode_server.storage.database import DatabaseUnreachable
from codemode_server.storage.ownership import RUNNING, LockedFolders
from codemode_server.storage.tables import VERSION, metadata
from codemode_server.support.private_files import NotPrivate, check_file, open_private, private_folder

logger = logging.getLogger(__name__)

FILE_NAME = "codemode.db"
ASIDE_NAME = f"{FILE_NAME}.set-aside"
"""Name of the database of another version, the last one that was met."""
FILE_SUFFIXES = ("", "-wal", "-shm")
_WAL_BYTES = 4 * 2**20
"""Size to which SQLite truncates the write-ahead log after a checkpoint."""
_BUSY_SECONDS = 5.0
_FULL_BELOW_BYTES = 64 * 1024
"""SQLite may report a full disk as an I/O error. With less free space than this, an I/O error means that."""
_STEPS_BETWEEN_CHECKS = 10_000
"""Number of steps of SQLite's virtual machine, about a millisecond, after which a statement checks whether to stop."""
_LOG_PAGES = 100
_BATCH_PAGES = 128
_FREE_PAGES = 256
"""Free pages that stay in the file for the next writes."""
_IS_DURABLE = "codemode_is_durable"
"""Key in a connection's `info`: whether its transactions are durable."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _OtherSchema(Exception):
    """Raised for a database that another version made."""


class SqliteFile:
    """The `Driver` of the file in one state folder."""

    error: type[Exception] = sqlite3.Error

    def __init__(self, folder: Path) -> None:
        """Open or create the database. Raises `JournalUnavailable`."""
        self._path = folder / FILE_NAME
        self._is_closed = False
        first: list[sqlite3.Connection] = [_open(self._path)]
        self.engine = create_engine(
            "sqlite://", poolclass=QueuePool, creator=lambda: first.pop() if first else _connection(self._path)
        )
        self._identity = _identity(self._path)
        with self.engine.connect():  # the pool owns the first connection now, and closes it
            pass

    def check(self) -> None:
        if not self._is_closed and self._identity != _identity(self._path):
            # SQLite would go on writing to a file that nobody can find any more.
            raise JournalUnavailable(
                f"the record {self._path} was moved or removed while codemode-server was running. Put it back, or "
                "restart codemode-server, which makes a new one."
            )

    def begin(self, connection: Connection, *, reads: bool, is_durable: bool, is_repeated: bool) -> None:
        """Lock the file first, to see the changes of other processes, unless the transaction only reads."""
        if is_durable != connection.info.get(_IS_DURABLE, False):
            connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
            connection.info[_IS_DURABLE] = is_durable
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    def unavailable(self, error: Exception) -> JournalUnavailable:
        return unavailable(self._path, error)

    def prepare_upkeep(self, is_ending: Callable[[], bool]) -> None:
        with self.engine.connect() as connection:  # the only one of this pool
            raw = _raw(connection)
            # Otherwise a commit of the journal would have to write a long log into the file.
            raw.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            raw.set_progress_handler(is_ending, _STEPS_BETWEEN_CHECKS)

    def free_space(self) -> int:
        with self.engine.connect() as connection:
            raw = _raw(connection)
            (count,) = raw.execute("PRAGMA freelist_count").fetchone()
            if count > _FREE_PAGES:
                # `execute` would step once and free one page, since the statement returns rows without columns.
                raw.executescript(f"PRAGMA incremental_vacuum({_BATCH_PAGES})")
                return _BATCH_PAGES
            raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return 0

    def description(self, connection: Connection) -> str:
        return f"SQLite {sqlite3.sqlite_version}, {self._path.stat().st_size / 1e6:.1f} MB in {self._path}"

    def close(self) -> None:
        self._is_closed = True
        self.engine.dispose()


def _raw(connection: Connection) -> sqlite3.Connection:
    raw: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
    return raw


def unavailable(path: Path, error: Exception) -> JournalUnavailable:
    code = _primary_code(error)
    if code in _DAMAGE:
        return _damaged(path, str(error))
    if _is_full(path, error, code):
        return JournalUnavailable(
            f"the record {path} can't be used: database or disk is full. Free some disk space; "
            "`codemode-server workspace clean` removes the programs' files."
        )
    if code in _LOCKED or isinstance(error, TimeoutError):
        return DatabaseUnreachable(
            f"the record {path} can't be used: another program has had it locked for seconds ({error}). End that "
            "program, for instance a database browser or a backup; `lsof` names it."
        )
    cause = (isinstance(error, OSError) and error.strerror) or str(error)
    return JournalUnavailable(
        f"the record {path} can't be used: {cause}. Make it and its folder yours and writable, or set state.dir in "
        "upstream.yaml to another folder."
    )


def _damaged(path: Path, reason: str) -> JournalUnavailable:
    return JournalUnavailable(
        f"the record {path} can't be used: it is damaged ({reason}). Restore it from a backup, or move it away, and a "
        "new one is made without the past calls and learned types."
    )


def _primary_code(error: BaseException | None) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def _is_full(path: Path, error: Exception, code: int | None) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and path.parent.is_dir():
        return shutil.disk_usage(path.parent).free < _FULL_BELOW_BYTES
    return code == sqlite3.SQLITE_FULL


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - done at each use, and `Path.stat` takes twice as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open(path: Path) -> sqlite3.Connection:
    """Open or create the file, one process after another: SQLite opens the log by its name when it first reads. If
    another process set the file aside between the two, it would open the log of another file."""
    lock = path.with_name(f"{FILE_NAME}.lock")
    try:
        private_folder(path.parent, is_readable=True)
        for name in (path.name, lock.name, *(FILE_NAME + suffix for suffix in ("-wal", "-shm", "-journal"))):
            check_file(path.with_name(name))
        with held(lock, timeout_s=_BUSY_SECONDS):
            try:
                return _connection(path)
            except _OtherSchema as problem:
                if LockedFolders(path.parent).others():
                    raise JournalUnavailable(
                        f"{problem} A codemode-server of that version is running and uses it: end it (`lsof` names "
                        "it), or set state.dir in upstream.yaml to another folder. If none is running, remove "
                        f"{path.parent / RUNNING}."
                    ) from None
                logger.warning("%s It was set aside as %s, and a new one is made.", problem, _set_aside(path))
                return _connection(path)
    except NotPrivate as error:
        raise JournalUnavailable(
            f"the record {path} can't be used: {error}; or set state.dir in upstream.yaml to another folder"
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise unavailable(path, error) from error


def _set_aside(path: Path) -> Path:
    """Rename the files, in place of those that were set aside before. The caller holds the lock."""
    aside = path.with_name(ASIDE_NAME)
    # The main file comes last: as soon as it is gone, a process that opens the database makes a new one.
    for suffix in reversed(FILE_SUFFIXES):
        renamed = aside.with_name(ASIDE_NAME + suffix)
        renamed.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            path.with_name(FILE_NAME + suffix).rename(renamed)
    return aside


def _connection(path: Path) -> sqlite3.Connection:
    # Created here, since SQLite would follow a link and make a file that others can read. If it exists it is not opened
    # here: closing it would release the locks that other connections of this process hold on it.
    with suppress(FileExistsError):
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        _check_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL, with retries: SQLite does not wait for another process that does the same at this moment."""
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


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == 0:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _version(connection) == 0:  # another process may have created them meanwhile
                if _tables(connection):
                    raise _damaged(path, "it has tables of another program")
                for statement in _definitions():
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    if (version := _version(connection)) != VERSION:
        raise _OtherSchema(f"the record {path} was written by another version of codemode-server (schema {version}).")
    if missing := sorted({*metadata.tables} - _tables(connection)):
        raise _damaged(path, f"there is no table {missing[0]!r}")


def _definitions() -> Iterator[str]:
    dialect = sqlite.dialect()
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            yield str(CreateIndex(index).compile(dialect=dialect))


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
