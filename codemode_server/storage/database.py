"""The database of an installation: transactions on SQLite or PostgreSQL, and reads in threads.

What differs between the two is in `sqlite` and `postgres`: how a connection is opened, how a transaction begins, and
what is said of a failure. Several processes may have it open at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, Executable, Row
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from codemode_server.domain.errors import JournalUnavailable

T = TypeVar("T")
AnyRow: TypeAlias = Row[*tuple[Any, ...]]

_ATTEMPTS = 100
"""Only repeated transactions wait for each other. New ones do not, and may undo the same transaction many times."""


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where a PostgreSQL database is; its `repr` has no password."""

    url: str
    """`postgresql://USER@HOST/NAME`, with the parameters of libpq behind `?`."""
    password: str | None = field(default=None, repr=False)


DatabasePlace: TypeAlias = Path | PostgresAddress
"""A state folder, whose database is SQLite, or the address of one on PostgreSQL."""


class DatabaseUnreachable(JournalUnavailable):
    """Raised while no transaction is possible: another process has locked the database, or its server is away."""


class TransactionUndone(JournalUnavailable):
    """Raised for a transaction that changed nothing and can be repeated: others changed the same rows, or the
    connection was lost before the commit."""


class Driver(Protocol):
    """One kind of database."""

    engine: Engine
    error: type[Exception]
    """Base class of the library's errors, which SQLAlchemy does not wrap while a connection is opened."""

    def check(self) -> None:
        """Called before each transaction. Raises `JournalUnavailable`: the database is not the one that was opened."""

    def begin(self, connection: Connection, *, reads: bool, is_durable: bool, is_repeated: bool) -> None:
        """Execute what a transaction begins with, as `Database.begin` says."""

    def unavailable(self, error: Exception) -> JournalUnavailable:
        """The error to raise for an error of the library: one line that says what to do. Its class says whether to
        repeat the transaction."""

    def prepare_upkeep(self, is_ending: Callable[[], bool]) -> None: ...

    def free_space(self) -> int: ...

    def description(self, connection: Connection) -> str:
        """Name, version and size of the database, for the person."""

    def close(self) -> None: ...


class Database:
    """An open database. Each failure raises a `JournalUnavailable` that names the database and the remedy."""

    def __init__(self, place: DatabasePlace) -> None:
        """Open the database, or create it or its tables. Blocks. Raises `JournalUnavailable`: it cannot be opened."""
        self._driver = _driver(place)

    @contextmanager
    def begin(
        self,
        connection: Connection | None = None,
        *,
        reads: bool = False,
        is_durable: bool = False,
        is_repeated: bool = False,
    ) -> Iterator[Connection]:
        """A transaction, on this connection or one of the pool: all changes or none. Unless it only `reads`, it sees
        what other processes have changed and fails rather than overwrite it. With `is_durable` it survives a power cut.
        `is_repeated`: it was undone before; of these, one runs at a time, so that each comes to an end. Raises
        `JournalUnavailable`, `DatabaseUnreachable`, `TransactionUndone`."""
        self._driver.check()
        is_connected = is_committing = False
        try:
            with nullcontext(connection) if connection is not None else self._driver.engine.connect() as used:
                is_connected = True
                with used.begin():
                    self._driver.begin(used, reads=reads, is_durable=is_durable, is_repeated=is_repeated)
                    yield used
                    is_committing = True
        except DBAPIError as error:
            problem = self._driver.unavailable(error.orig if isinstance(error.orig, Exception) else error)
            # Repeat it only once: perhaps the step itself makes the server close the connection.
            if error.connection_invalidated and is_connected and not (is_committing or is_repeated):
                problem = TransactionUndone(*problem.args)
            raise problem from error.orig
        except self._driver.error as error:
            raise self._driver.unavailable(error) from error
        except PoolTimeout as error:
            raise DatabaseUnreachable("the record can't be read: too many readers wait for it. Try again.") from error

    def connect(self) -> Connection:
        """A connection that the caller keeps, for `begin`. Raises `JournalUnavailable`."""
        try:
            return self._driver.engine.connect()
        except DBAPIError as error:
            raise self._driver.unavailable(error.orig if isinstance(error.orig, Exception) else error) from error.orig
        except (self._driver.error, OSError) as error:
            raise self._driver.unavailable(error) from error

    def transact(
        self, step: Callable[[Connection], T], connection: Connection | None = None, *, is_durable: bool = False
    ) -> T:
        """Do a step in a transaction, and repeat it if it was undone. Blocks. Raises as `begin`."""
        for attempt in range(_ATTEMPTS):
            try:
                with self.begin(connection, is_durable=is_durable, is_repeated=attempt > 0) as used:
                    return step(used)
            except TransactionUndone:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    async def read(self, step: Callable[[Connection], T]) -> T:
        """Do a step that only reads in a thread. Raises `JournalUnavailable`: as `begin`."""
        from anyio import to_thread

        def read() -> T:
            with self.begin(reads=True) as connection:
                return step(connection)

        return await to_thread.run_sync(read)

    async def rows(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Sequence[AnyRow]:
        return await self.read(lambda connection: connection.execute(statement, values).all())

    def prepare_upkeep(self, is_ending: Callable[[], bool]) -> None:
        """Prepare the only connection of this pool for the deletion of rows: statements stop once `is_ending`."""
        self._driver.prepare_upkeep(is_ending)

    def free_space(self) -> int:
        """Return some disk space of deleted rows to the system; gives 0 if there is no more to return."""
        try:
            return self._driver.free_space()
        except self._driver.error as error:
            raise self._driver.unavailable(error) from error

    def description(self) -> str:
        with self.begin(reads=True) as connection:
            return self._driver.description(connection)

    def close(self) -> None:
        self._driver.close()


def _driver(place: DatabasePlace) -> Driver:
    if isinstance(place, Path):
        from codemode_server.storage.sqlite import SqliteFile

        return SqliteFile(place)
    from codemode_server.storage.postgres import PostgresServer

    return PostgresServer(place)
