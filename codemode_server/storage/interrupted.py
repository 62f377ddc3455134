"""Ends the executions of killed processes as interrupted: in the upkeep, and before a command shows the record.

Several processes may do this at once.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, literal, select, update

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.executions import INTERRUPTED, ExecutionStatus
from codemode_server.domain.principals import Session
from codemode_server.storage.audit import add_end, new_chain
from codemode_server.storage.database import Database
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.tables import calls, executions
from codemode_server.support.private_files import NotPrivate

logger = logging.getLogger(__name__)

_MAX_EXECUTION_SECONDS = 3 * 86_400.0
"""No execution takes longer. Applied only to those without an owner: a resumed one may have begun long ago."""
_MAX_NAMED = 8
_ROW_BYTES = 300
"""About the size of the fixed-size fields and index entries of a row."""


def _length(*columns: Any) -> Any:
    """SQL for the approximate size of a row with these values."""
    return sum((func.coalesce(func.length(it), 0) for it in columns), start=literal(_ROW_BYTES))


_RUNNING = select(executions.c.execution_id, _length(executions.c.code)).where(executions.c.ended_at.is_(None))
_ITS_CALLS = select(
    func.count(),
    func.coalesce(func.sum(_length(calls.c.arguments, calls.c.result, calls.c.error)), 0),
    func.coalesce(func.sum(_length(calls.c.recorded_arguments, calls.c.recorded_result)), 0),
).where(calls.c.execution_id == bindparam("of_execution"))
_END = update(executions).where(executions.c.execution_id == bindparam("of_execution"), executions.c.ended_at.is_(None))


def settle_interrupted(database: Database, ownership: Ownership, now: float) -> None:
    """End the executions of killed processes. Their calls without an outcome stay so, since it is unknown. Blocks.
    Raises `JournalUnavailable`, `NotPrivate`, `OSError`: the record or the folder of the locks can't be used."""
    is_without_owner = executions.c.owner.is_(None) & (executions.c.started_at < now - _MAX_EXECUTION_SECONDS)
    database.transact(partial(_interrupt, is_without_owner, now))
    ownership.settle_dead(
        lambda owner: database.transact(partial(_interrupt, executions.c.owner == owner, now)),
    )


def settle_before_reading(database: Database, ownership: Ownership) -> None:
    """As `settle_interrupted`, for a process that shows the record; a problem is only logged. Blocks."""
    try:
        settle_interrupted(database, ownership, time.time())
    except (JournalUnavailable, NotPrivate, OSError) as error:
        logger.warning("executions of a codemode-server that was killed are shown as running: %s", error)


def interrupted_programs(database: Database, session: Session, since: float) -> list[str]:
    """Ids of the programs of a session that were ended as interrupted since then (seconds since 1970), the latest
    first. Blocks. Raises `JournalUnavailable`."""
    found = (
        select(executions.c.execution_id)
        .where(executions.c.session_id == session.session_id, executions.c.status == ExecutionStatus.INTERRUPTED)
        .where(executions.c.ended_at >= since, executions.c.code.is_not(None))
        .order_by(executions.c.started_at.desc())
        .limit(_MAX_NAMED)
    )
    return list(database.transact(lambda connection: connection.execute(found).scalars().all()))


def _interrupt(which: ColumnElement[bool], now: float, connection: Connection) -> None:
    chain = new_chain()
    for execution_id, code_bytes in connection.execute(_RUNNING.where(which)).all():
        of = {"of_execution": execution_id}
        count, value_bytes, record_bytes = connection.execute(_ITS_CALLS, of).one()
        new = {
            "status": ExecutionStatus.INTERRUPTED,
            "error": INTERRUPTED,
            "ended_at": now,
            "calls": count,
            "value_bytes": code_bytes + value_bytes,
            "record_bytes": code_bytes + record_bytes,
        }
        if connection.execute(_END, of | new).rowcount:
            add_end(connection, chain, execution_id)
