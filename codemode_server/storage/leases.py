"""Leases of the replicas that share a database on PostgreSQL: rows of `processes`, which each replica renews once a
second. A replica that has not done so for `LEASE_SECONDS` counts as dead, and its executions as interrupted, once
whoever finds that has looked again.

A lease alone proves nothing: a replica that was stopped may continue after its lease has lapsed. So the journal records
no call of an execution that another replica has ended, and a replica sends nothing while its own lease has lapsed. Ages
of leases are measured by the clock of the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from sqlalchemy import Connection, Delete, bindparam, delete, extract, func, insert, select, update

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.storage.database import Database
from codemode_server.storage.tables import executions, processes

LEASE_SECONDS = 4.0
_SECOND_LOOK_SECONDS = 3.0
"""After an outage of the database all leases have lapsed; by then each replica that lives has renewed its own."""

_NOW = extract("epoch", func.clock_timestamp())
_IS_LAPSED = processes.c.seen_at < _NOW - LEASE_SECONDS
_ADD = insert(processes).values(name=bindparam("of_name"), seen_at=_NOW)
_RENEW = update(processes).where(processes.c.name == bindparam("of_name")).values(seen_at=_NOW)
_IS_ALIVE = select(processes.c.name).where(processes.c.name == executions.c.owner, ~_IS_LAPSED).exists()
_DEAD = (
    select(executions.c.owner)
    .where(executions.c.ended_at.is_(None), executions.c.owner.is_not(None), ~_IS_ALIVE)
    .distinct()
)
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
"""It locks the row, so that no other replica ends the execution while the call is being recorded."""
_REMOVE = delete(processes).where(processes.c.name == bindparam("of_name"))
_REMOVE_LAPSED = _REMOVE.where(_IS_LAPSED)
_REMOVE_OLD = delete(processes).where(processes.c.seen_at < _NOW - 86_400.0)
"""Nobody settles a replica that was killed while it ran no execution."""


class Leases:
    """The `Ownership` of one replica."""

    renewal_seconds: float | None = 1.0

    def __init__(self, database: Database) -> None:
        """Without a lease until `renew`."""
        self._database = database
        self._name = uuid4().hex
        self._renewed_at: float | None = None

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
                "this execution counts as interrupted, since its codemode-server did not answer for some seconds, so "
                f"nothing was sent. Go on with it: execute_code(resume={execution_id!r})"
            )

    def renew(self) -> None:
        """Blocks. Raises `JournalUnavailable`."""
        began = time.monotonic()

        def renew(connection: Connection) -> None:
            of = {"of_name": self._name}
            if not connection.execute(_RENEW, of).rowcount:
                connection.execute(_REMOVE_OLD)
                connection.execute(_ADD, of)

        self._database.transact(renew)
        self._renewed_at = began

    def settle_dead(self, settle: Callable[[str], None]) -> None:
        if dead := self._dead():
            time.sleep(_SECOND_LOOK_SECONDS)
            for name in dead & self._dead():
                settle(name)
                self._remove(_REMOVE_LAPSED, name)

    def _dead(self) -> set[str]:
        return {*self._database.transact(lambda connection: connection.execute(_DEAD).scalars().all())}

    def others(self) -> set[str]:
        of = {"of_name": self._name}
        return {*self._database.transact(lambda connection: connection.execute(_OTHERS, of).scalars().all())}

    def close(self) -> None:
        if self._renewed_at is not None:
            with suppress(JournalUnavailable):  # the lease lapses then
                self._remove(_REMOVE, self._name)

    def _remove(self, statement: Delete, name: str) -> None:
        self._database.transact(lambda connection: connection.execute(statement, {"of_name": name}))
