"""Names the replica that runs an execution, where several share a database on PostgreSQL: a row of `processes`, which
the replica renews each second. One that has not for `LEASE_SECONDS` counts as dead, and its executions as interrupted.

A lease alone is no proof: a replica that was stopped may wake after it. So the journal records no call of an execution
that has ended meanwhile, and a replica whose own lease has lapsed sends nothing until it has renewed it. Ages of leases
are measured by the clock of the database.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import Connection, bindparam, delete, extract, func, select, update

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.storage.database import Database
from codemode_server.storage.tables import executions, processes
from codemode_server.storage.upserts import upsert

LEASE_SECONDS = 4.0

_NOW = extract("epoch", func.clock_timestamp())
_IS_LAPSED = processes.c.seen_at < _NOW - LEASE_SECONDS
_RENEW = update(processes).where(processes.c.name == bindparam("of_name")).values(seen_at=_NOW)
_IS_ALIVE = select(processes.c.name).where(processes.c.name == executions.c.owner, ~_IS_LAPSED).exists()
_DEAD = select(executions.c.owner).where(executions.c.ended_at.is_(None), ~_IS_ALIVE).distinct()
_OTHERS = select(processes.c.name).where(~_IS_LAPSED, processes.c.name != bindparam("of_name"))
_IS_RUNNING = (
    select(executions.c.execution_id)
    .where(
        executions.c.execution_id == bindparam("of_execution"),
        executions.c.owner == bindparam("of_name"),
        executions.c.ended_at.is_(None),
    )
    .with_for_update(read=True)
)
"""Who takes this replica for dead waits until the call is recorded, or has ended the execution before."""
_REMOVE = delete(processes).where(processes.c.name == bindparam("of_name"))
_REMOVE_FORGOTTEN = delete(processes).where(processes.c.seen_at < _NOW - 86_400.0)
"""Those that were killed without an execution that somebody had to end."""


@dataclass(frozen=True, slots=True)
class LapsedOwner:
    name: str
    database: Database

    def release(self) -> None:
        """Nothing is held."""

    def remove(self) -> None:
        which = _REMOVE.where(_IS_LAPSED)
        self.database.transact(lambda connection: connection.execute(which, {"of_name": self.name}))


class Leases:
    """The `Ownership` of one replica."""

    renewal_seconds: float | None = 1.0

    def __init__(self, database: Database) -> None:
        """Without a lease until `renew`."""
        self._database = database
        self._name = uuid4().hex
        self._renewed_at: float | None = None
        self._judges_from = 0.0

    def name(self) -> str:
        return self._name

    def require(self) -> None:
        if self._renewed_at is None or time.monotonic() - self._renewed_at > LEASE_SECONDS:
            raise JournalUnavailable(
                "this codemode-server could not reach its database for some seconds, so its programs may count as "
                "interrupted, and nothing is sent. Run the program again, with resume."
            )

    def confirm(self, connection: Connection, execution_id: ExecutionId) -> None:
        if connection.execute(_IS_RUNNING, {"of_execution": execution_id, "of_name": self._name}).first() is None:
            raise JournalUnavailable(
                "this execution counts as interrupted, since its server did not answer for some seconds, so nothing "
                f"was sent. Go on with it: execute_code(resume={execution_id!r})"
            )

    def renew(self) -> None:
        """Blocks. Raises `JournalUnavailable`."""
        began = time.monotonic()

        def renew(connection: Connection) -> None:
            if not connection.execute(_RENEW, {"of_name": self._name}).rowcount:
                row = {"name": self._name, "began_at": time.time(), "seen_at": time.time()}
                connection.execute(_REMOVE_FORGOTTEN)
                connection.execute(upsert(connection, processes), row)
                connection.execute(_RENEW, {"of_name": self._name})

        self._database.transact(renew)
        if self._renewed_at is not None and began - self._renewed_at > LEASE_SECONDS:
            # The database was away, perhaps for all: those that live get the time to renew theirs.
            self._judges_from = time.monotonic() + LEASE_SECONDS
        self._renewed_at = began

    def dead(self) -> list[LapsedOwner]:
        if time.monotonic() < self._judges_from:
            return []
        names = self._database.transact(lambda connection: connection.execute(_DEAD).scalars().all())
        return [LapsedOwner(name, self._database) for name in names if name is not None]

    def others(self) -> set[str]:
        of = {"of_name": self._name}
        return {*self._database.transact(lambda connection: connection.execute(_OTHERS, of).scalars().all())}

    def close(self) -> None:
        if self._renewed_at is not None:
            with suppress(JournalUnavailable):  # else it lapses
                self._database.transact(lambda connection: connection.execute(_REMOVE, {"of_name": self._name}))
