"""Opens a database on PostgreSQL, and explains why it cannot be used.

Many processes on many machines may have it open. The isolation level is REPEATABLE READ: of two transactions that
change the same row, one is undone and repeated. The first process creates the tables. Tables of another version are
refused: unlike a SQLite file, the record of a team is never set aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from urllib.parse import urlsplit

from sqlalchemy import Connection, create_engine, func, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import DatabaseUnreachable, PostgresAddress, TransactionUndone
from codemode_server.storage.tables import VERSION, executions, metadata
from codemode_server.support.extras import install_command

_CONNECT_SECONDS = 5
_SESSION = {
    # Without durability a commit survives the death of our processes; the last half second is lost with the server.
    "synchronous_commit": "off",
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    # A process that was stopped in a transaction loses its locks before its lease, so that others can end its programs.
    "idle_in_transaction_session_timeout": "3s",
}
_DURABLE = "SET LOCAL synchronous_commit = on"
_ONE_AT_A_TIME = f"LOCK TABLE {executions.name} IN SHARE UPDATE EXCLUSIVE MODE"
"""The transaction's snapshot is taken after this lock, while with a lock that a SELECT takes it would be older. Other
transactions can read and write meanwhile."""
_KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
"""To notice when the server's machine is gone. In seconds; the last one in milliseconds."""
_LOCK = 0x636F6465
"""Number of the advisory lock that a process holds while it creates the tables."""
_MARK = "codemode-server "
"""Beginning of the comment on the table `executions`; the version of the tables follows."""
_UNDONE = ("40001", "40P01", "23505")
"""Serialization failure, deadlock, and a unique key that another process has inserted meanwhile."""
_BUSY = ("55P03", "57014")
_NO_CONNECTION = "08006"
_LOST = ("08", "57P")
_STATES = {
    "password|no pg_hba.conf entry|role .* does not exist|authentication": "28000",
    "database .* does not exist": "3D000",
    "too many clients|connection slots": "53300",
}
"""The error of a refused connection has no state; this is the state for its text."""
_RESTORE = "Restore it from a backup, or set state.database to another database"
_OTHER = "Set state.database to a database of its own"
_REMEDIES = {
    "28": "Check the user in state.database and the password in state.database_password",
    "3D": "Create it with `createdb`, owned by the user in state.database",
    "42501": "Make the user in state.database the owner of that database",
    "25006": "Set state.database to the primary server, which can be written to",
    "53100": "Free some disk space on its server",
    "53300": "Raise max_connections of its server, or end other clients",
    "XX": _RESTORE,
    "42P01": _RESTORE,
}
"""By the beginning of an error's state (https://www.postgresql.org/docs/15/errcodes-appendix.html)."""


class PostgresServer:
    """The `Driver` of one database on a server."""

    def __init__(self, address: PostgresAddress) -> None:
        """Connect, and make the tables if there are none. Raises `JournalUnavailable`."""
        parts = urlsplit(address.url)
        self._place = f"{parts.path.strip('/')!r} on {parts.hostname or 'this machine'}"
        self._name = f"the record {self._place} (PostgreSQL)"
        self._password = address.password
        if find_spec("psycopg") is None:
            raise self._problem("psycopg is not installed", f"Install it with: {install_command('postgres')}")
        import psycopg

        self.error: type[Exception] = psycopg.Error
        self._lost = (psycopg.OperationalError, psycopg.InterfaceError)
        self.engine = create_engine(
            self._url(address),
            isolation_level="REPEATABLE READ",
            pool_pre_ping=True,
            connect_args={"connect_timeout": _CONNECT_SECONDS, "application_name": "codemode-server", **_KEEPALIVE},
        )
        try:
            with self.engine.connect().execution_options(isolation_level="READ COMMITTED") as connection:
                self._check_tables(connection)
        except DBAPIError as error:
            self.engine.dispose()
            raise self.unavailable(error.orig if isinstance(error.orig, Exception) else error) from error.orig
        except JournalUnavailable:
            self.engine.dispose()
            raise

    def _url(self, address: PostgresAddress) -> URL:
        try:
            url = make_url(address.url).set(drivername="postgresql+psycopg", password=address.password)
        except (ArgumentError, ValueError):
            raise self._problem("its address can't be read", "Correct state.database in upstream.yaml") from None
        session = [f"-c {name}={value}" for name, value in _SESSION.items()]
        return url.update_query_dict({"options": " ".join([*session, str(url.query.get("options", ""))])})

    def _check_tables(self, connection: Connection) -> None:
        with connection.begin():
            present, mark = _tables(connection)
            if mark is None:
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
                present, mark = _tables(connection)  # another process may have made them meanwhile
            if mark is None:
                if taken := sorted(present & {*metadata.tables}):
                    raise self._problem(f"it has a table {taken[0]!r} of another program", _OTHER)
                connection.exec_driver_sql(_DURABLE)
                metadata.create_all(connection, checkfirst=False)
                connection.exec_driver_sql(f"COMMENT ON TABLE {executions.name} IS '{_MARK}{VERSION}'")
            elif mark != f"{_MARK}{VERSION}":
                found = mark.removeprefix(_MARK)
                raise self._problem(f"another version of codemode-server made its tables (schema {found})", _OTHER)
            elif missing := sorted({*metadata.tables} - present):
                raise self._problem(f"there is no table {missing[0]!r}", _REMEDIES["42P01"])

    def check(self) -> None:
        """Nothing is known without a query."""

    def begin(self, connection: Connection, *, reads: bool, is_durable: bool, is_repeated: bool) -> None:
        if is_repeated:
            connection.exec_driver_sql(_ONE_AT_A_TIME)
        if is_durable:
            connection.exec_driver_sql(_DURABLE)

    def unavailable(self, error: Exception) -> JournalUnavailable:
        state: str = getattr(error, "sqlstate", None) or ""
        # Only the primary message: the details have values of rows.
        message = getattr(getattr(error, "diag", None), "message_primary", None)
        # Of a refused connection only the cause: `connection to server at … failed: Connection refused`.
        text = " ".join((message or str(error).partition("\n")[0].rpartition(" failed: ")[2]).split())
        if self._password:
            text = text.replace(self._password, "***")
        if state in _UNDONE:
            return self._problem(f"others kept changing the same rows ({text})", "Try again", TransactionUndone)
        if state in _BUSY:
            return self._problem(text, "End what holds its locks, see pg_stat_activity", DatabaseUnreachable)
        if not state and isinstance(error, self._lost):
            state = next((state for words, state in _STATES.items() if re.search(words, text)), _NO_CONNECTION)
        for beginning, remedy in _REMEDIES.items():
            if state.startswith(beginning):
                return self._problem(text, remedy)
        if state.startswith(_LOST):
            return self._problem(text, "Start its server, or correct state.database", DatabaseUnreachable)
        return self._problem(text, "See the log of its server")

    def _problem(
        self, cause: str, remedy: str, kind: type[JournalUnavailable] = JournalUnavailable
    ) -> JournalUnavailable:
        return kind(f"{self._name} can't be used: {cause}. {remedy}.")

    def prepare_upkeep(self, is_ending: Callable[[], bool]) -> None:
        """Nothing: a statement of the upkeep takes milliseconds."""

    def free_space(self) -> int:
        """Nothing: the server's autovacuum does it."""
        return 0

    def description(self, connection: Connection) -> str:
        version = ".".join(map(str, connection.dialect.server_version_info or ()))
        size = connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one()
        return f"PostgreSQL {version}, {size / 1e6:.1f} MB in {self._place}"

    def close(self) -> None:
        self.engine.dispose()


def _tables(connection: Connection) -> tuple[set[str], str | None]:
    """The names of the tables, and the comment that says which version they have."""
    inspector = inspect(connection)
    present = set(inspector.get_table_names())
    return present, inspector.get_table_comment(executions.name)["text"] if executions.name in present else None
