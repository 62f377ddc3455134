"""The one SQLite file of an installation: opening it, and bringing its schema up to date.

Several products may have it open at once (two hosts on one machine); WAL and a busy timeout make that work. All use is
on the event loop's thread: one insert costs tens of microseconds, less than handing it to another thread. What works in
a thread of its own has a connection of its own, since transactions belong to connections.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codemode_server.errors import LedgerUnavailable

FILE_NAME = "codemode.db"
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
)


class Database:
    """An open database. Every failure to use it is a `LedgerUnavailable` that names the file and the remedy."""

    def __init__(self, folder: Path) -> None:
        """Open or create the database in `folder`."""
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            with suppress(OSError):
                self.path.chmod(0o600)
            self._use_wal()
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._migrate()
        except (OSError, sqlite3.Error) as error:
            raise self._unavailable(error) from error

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one statement or transaction.

        Raises:
            LedgerUnavailable: if SQLite fails: full disk, lock held for 5 seconds, damaged or read-only file.
        """
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise self._unavailable(error) from error

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """The connection with the lock on the file, for changes of which all are made or none.

        The lock comes before what is read, so that another product's news are not written over.

        Raises:
            LedgerUnavailable: as `use`.
        """
        with self.use() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _use_wal(self) -> None:
        """Two products that open a new record at once are in one another's way here, where SQLite does not wait."""
        until = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.02)
            else:
                return

    def _migrate(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > len(_MIGRATIONS):
            raise LedgerUnavailable(
                f"the record {self.path} was written by a newer codemode-server (schema {version}). "
                "Install that one, or set state.dir in upstream.yaml to another folder."
            )
        for number, script in enumerate(_MIGRATIONS[version:], start=version + 1):
            # If the other product migrated meanwhile, its version is seen inside the lock and nothing is done twice.
            self._connection.execute("BEGIN IMMEDIATE")
            (current,) = self._connection.execute("PRAGMA user_version").fetchone()
            if current < number:
                for statement in filter(str.strip, script.split(";")):
                    self._connection.execute(statement)
                self._connection.execute(f"PRAGMA user_version = {number}")
            self._connection.execute("COMMIT")

    def _unavailable(self, error: Exception) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the record {self.path} can't be used: {error}. "
            "Free some disk space, or set state.dir in upstream.yaml to a folder that can be written."
        )
