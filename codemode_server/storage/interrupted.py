"""Names the process that runs an execution, and records executions of killed processes as interrupted: in the upkeep,
and before a command shows the record.

Which processes live is known by the locks of their folders, so any number of processes may do this at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import INTERRUPTED, ExecutionStatus
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.processes.file_lock import RunFolder, abandoned
from codemode_server.storage.database import Database
from codemode_server.storage.sqlite_audit import append_values, values_of
from codemode_server.support.private_files import NotPrivate, private_folder, private_subfolder

logger = logging.getLogger(__name__)

_MAX_EXECUTION_SECONDS = 3 * 86_400.0
"""No execution takes longer; one that is older was interrupted, whoever ran it."""
_BYTES = (
    "300 + IFNULL(LENGTH(code), 0)"
    " + TOTAL(200 + IFNULL(LENGTH(made.arguments), 0) + IFNULL(LENGTH(made.result), 0) + IFNULL(LENGTH(made.error), 0))"
)
"""SQL for the approximate size of an execution, with fixed-size fields and index entries."""


def settle_interrupted(database: Database, ownership: Ownership, now: float) -> None:
    """End the executions of killed products. Calls without an outcome stay so, since it is unknown. Blocks. Raises
    `JournalUnavailable`, `NotPrivate`, `OSError`: the record or the folder of the locks can't be used."""
    database.transact(partial(_interrupt, "started_at < ?", now - _MAX_EXECUTION_SECONDS, now))
    for owner in ownership.dead():
        try:
            database.transact(partial(_interrupt, "owner = ?", owner.path.name, now))
        except JournalUnavailable:
            owner.release()
            raise
        owner.remove()


def settle_before_reading(folder: Path) -> None:
    """As `settle_interrupted`, for a process that shows the record of a state folder; a problem is logged. Blocks."""
    try:
        with closing(Database(folder)) as database:
            settle_interrupted(database, Ownership(folder), time.time())
    except (JournalUnavailable, NotPrivate, OSError) as error:
        logger.warning("executions of servers that were killed are shown as running: %s", error)


def _interrupt(which: str, value: object, now: float, connection: Connection) -> None:
    executions = connection.exec_driver_sql(
        f"SELECT execution_id, principal, session_id FROM journal_executions WHERE ended_at IS NULL AND {which}",  # noqa: S608
        (value,),
    ).fetchall()
    for execution_id, principal, session_id in executions:
        connection.exec_driver_sql(
            "UPDATE journal_executions SET status = ?2, error = ?3, ended_at = ?4, (calls, bytes) ="  # noqa: S608
            f" (SELECT COUNT(*), {_BYTES} FROM journal_calls AS made WHERE made.execution_id = ?1)"
            " WHERE execution_id = ?1",
            (execution_id, ExecutionStatus.INTERRUPTED, INTERRUPTED, now),
        )
        ended = AuditEvent(
            AuditEventKind.EXECUTION_ENDED,
            Principal(PrincipalId(principal)),
            session_id,
            execution_id,
            now,
            status=ExecutionStatus.INTERRUPTED,
            error=INTERRUPTED,
        )
        append_values(connection, values_of(ended))


class Ownership:
    """This product's name as an owner; the product is alive as long as it holds the lock on the folder of that name,
    which, unlike a process id, ends with the machine and works between containers that share the state folder."""

    def __init__(self, state_folder: Path) -> None:
        self._state_folder = state_folder
        self._own: RunFolder | None = None

    def name(self) -> str | None:
        """The owner to record with an execution; None if no folder can be locked."""
        if self._own is None or not self._own.path.is_dir():  # somebody may have removed it
            self.close()
            try:
                self._own = RunFolder.make(self._parent())
            except (OSError, NotPrivate) as error:
                logger.debug("executions are recorded without an owner: %s", error)
                return None
        return self._own.path.name

    def dead(self) -> Iterator[RunFolder]:
        """Locks and returns the folders of killed products, named after the owners. Raises `NotPrivate`, `OSError`."""
        return abandoned(self._parent())

    def others(self) -> set[str]:
        """Names of the other owners that are alive. Raises as `dead`."""
        dead = set()
        for owner in self.dead():
            dead.add(owner.path)
            owner.release()
        return {it.name for it in self._parent().iterdir() if it not in dead} - {self._own and self._own.path.name}

    def _parent(self) -> Path:
        return private_subfolder(private_folder(self._state_folder, is_readable=True), "running")

    def close(self) -> None:
        if self._own is not None:
            self._own.remove()
            self._own = None
