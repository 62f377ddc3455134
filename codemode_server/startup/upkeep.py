"""Bounds the state folder: ends executions of killed processes, deletes old and surplus rows, and frees disk space.

It works in a thread with its own connection, in transactions of a few milliseconds with pauses between them, since
journal and audit write at the same time. Several processes may do this at once. Running executions are never deleted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import anyio
import anyio.to_thread
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    case,
    delete,
    func,
    insert,
    select,
    tuple_,
    union_all,
    update,
)

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.cache import delete_old_rows
from codemode_server.storage.call_counts import no_longer_needed
from codemode_server.storage.database import AnyRow, Database, DatabasePlace
from codemode_server.storage.interrupted import settle_interrupted
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.tables import approvals, calls, counted_calls, events, executions
from codemode_server.support.private_files import NotPrivate

logger = logging.getLogger(__name__)
_PROBLEMS = (JournalUnavailable, NotPrivate, OSError)

_DAY = 86_400.0
_INTERVAL_S = 3_600.0
_PAUSE_S = 0.005
_BATCH_ROWS = 20
_CALL_ROW = [it for it in calls.c if it.name not in ("arguments", "detail", "result", "error")]
"""What stays of a call once its values are removed."""

Deletion: TypeAlias = Callable[[float, Connection], int]
"""Deletes some rows of a feature, those from before a time and surplus ones; returns how many."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Maximum age and size of a store; 0 for no limit."""

    days: float
    bytes: int


class Upkeep:
    def __init__(
        self,
        place: DatabasePlace,
        ownership: Ownership,
        audit: Retention,
        journal: Retention = Retention(0, 0),
        *,
        deletions: Sequence[Deletion] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place = place
        self._ownership = ownership
        self._audit = audit
        self._journal = journal
        self._deletions = deletions
        self._clock = clock
        self._written = 0
        self._woken = anyio.Event()
        self._is_ending = threading.Event()

    def set_retention(self, audit: Retention, journal: Retention) -> None:
        """Change the limits and begin a pass. Call it on the event loop."""
        self._audit, self._journal = audit, journal
        self._woken.set()

    def note_written(self, count: int) -> None:
        """Count added bytes; after a sixteenth of the smaller limit a pass begins. Call it on the event loop."""
        self._written += count
        bounds = [retention.bytes for retention in (self._audit, self._journal) if retention.bytes]
        if bounds and self._written > min(bounds) // 16:
            self._written = 0
            self._woken.set()

    async def run(self) -> None:
        """Do a pass now, each hour, and whenever much was written."""
        while True:
            await anyio.to_thread.run_sync(self.pass_once)
            with anyio.move_on_after(_INTERVAL_S):
                await self._woken.wait()
            self._woken = anyio.Event()

    def end(self) -> None:
        """End the work in threads within milliseconds; an interrupted statement changes nothing."""
        self._is_ending.set()

    def pass_once(self) -> None:
        problems: dict[str, None] = {}
        try:
            with closing(Database(self._place)) as database:
                database.prepare_upkeep(self._is_ending.is_set)
                for step in self._steps(database):
                    try:
                        step()
                    except _PROBLEMS as error:
                        problems[str(error)] = None
                    if self._is_ending.is_set():
                        return
        except _PROBLEMS as error:
            problems[str(error)] = None
        for problem in problems:
            logger.warning("old records can't be deleted: %s", problem)

    def _steps(self, database: Database) -> Iterator[Callable[[], object]]:
        now = self._clock()
        yield partial(settle_interrupted, database, self._ownership, now)
        yield partial(self._remove_values, database)
        yield partial(self._delete_records, database)
        before = now - self._audit.days * _DAY if self._audit.days else 0.0
        for deletion in self._deletions:
            yield partial(self._in_batches, partial(database.transact, partial(deletion, before)))
        old_cached = partial(delete_old_rows, now=now, most=_BATCH_ROWS)
        yield partial(self._in_batches, partial(database.transact, old_cached))
        yield partial(self._change, database, counted_calls, partial(_delete, counted_calls), no_longer_needed(now))
        yield partial(self._in_batches, database.free_space)

    def _in_batches(self, delete: Callable[[], int]) -> None:
        while not self._is_ending.is_set() and delete():
            self._is_ending.wait(_PAUSE_S)

    def _remove_values(self, database: Database) -> None:
        """Remove the complete values of executions that have ended, and what the person was asked."""
        limits = [self._clock() - self._journal.days * _DAY] if self._journal.days else []
        if self._journal.bytes and (until := _too_many_values(database, self._journal.bytes)) is not None:
            limits.append(until)
        if not limits:
            return
        found = (
            select(executions.c.execution_id)
            .where(executions.c.ended_at <= max(limits), executions.c.value_bytes.is_not(None))
            .order_by(executions.c.ended_at)
            .limit(_BATCH_ROWS)
        )

        def choose(connection: Connection) -> Sequence[str]:
            names = connection.execute(found).scalars().all()
            # From now on nobody runs it again: without the answers of its calls, these would be sent once more.
            _set_to_none(executions, ("seed",), executions.c.execution_id.in_(names), connection)
            return names

        def remove() -> int:
            names = database.transact(choose)
            which = executions.c.execution_id.in_(names)
            its_calls = calls.c.execution_id.in_(names) & calls.c.arguments.is_not(None)
            self._change(database, calls, _without_values, its_calls)
            self._change(database, approvals, partial(_delete, approvals), approvals.c.execution_id.in_(names))
            own = "code", "description", "answer", "value_bytes"
            database.transact(partial(_set_to_none, executions, own, which))
            return len(names)

        self._in_batches(remove)

    def _delete_records(self, database: Database) -> None:
        """Delete the rows of old and surplus executions, and events."""
        limits = [self._clock() - self._audit.days * _DAY] if self._audit.days else []
        if self._audit.bytes and (until := _too_many_rows(database, self._audit.bytes)) is not None:
            limits.append(until)
        if not limits:
            return
        before = max(limits)
        # One with a holder was interrupted, and what it may have passed on is not known yet.
        is_old = (executions.c.ended_at <= before) & executions.c.holder.is_(None)
        found = select(executions.c.execution_id).where(is_old).limit(_BATCH_ROWS)
        is_gone = ~select(executions.c.execution_id).where(executions.c.execution_id == calls.c.execution_id).exists()
        gone = select(calls.c.execution_id).where(is_gone).distinct().limit(_BATCH_ROWS)

        def remove() -> int:
            names = database.transact(lambda connection: connection.execute(found).scalars().all())
            for table in (calls, approvals, executions):
                self._change(database, table, partial(_delete, table), table.c.execution_id.in_(names))
            return len(names)

        self._in_batches(remove)
        for which in _deletable_events(database, before):
            self._change(database, events, partial(_delete, events), which)

        def remove_calls() -> int:
            # All calls are looked through, which would hold up the writers if it were part of the deletion.
            with database.begin(reads=True) as connection:
                names = connection.execute(gone).scalars().all()
            self._change(database, calls, partial(_delete, calls), calls.c.execution_id.in_(names))
            return len(names)

        # A product that was taken for dead may have gone on calling after its execution was deleted.
        self._in_batches(remove_calls)

    def _change(
        self,
        database: Database,
        table: Table,
        change: Callable[[ColumnElement[bool], Connection], int],
        which: ColumnElement[bool],
    ) -> None:
        """Change the rows of a table for which `which` holds, a few in each transaction."""
        key = [*table.primary_key]
        some = tuple_(*key).in_(select(*key).where(which).limit(_BATCH_ROWS))
        self._in_batches(partial(database.transact, partial(change, some)))


def _delete(table: Table, which: ColumnElement[bool], connection: Connection) -> int:
    return connection.execute(delete(table).where(which)).rowcount


def _deletable_events(database: Database, before: float) -> Iterator[ColumnElement[bool]]:
    """Events of executions that were deleted, a condition for each chain: only its beginning, since a chain without
    events in its middle looks as if somebody had removed them. One of an execution that was resumed may be far older
    than its end."""
    is_alone = ~select(executions.c.execution_id).where(executions.c.execution_id == events.c.execution_id).exists()
    is_old = (events.c.at <= before) & is_alone
    first_to_stay = func.min(case((~is_old, events.c.number)))
    chains = select(events.c.chain, func.min(events.c.number), first_to_stay).group_by(events.c.chain)
    with database.begin(reads=True) as connection:
        rows = connection.execute(chains).all()
    for chain, first, stays in rows:
        if stays is None:
            yield (events.c.chain == chain) & is_old
        elif first < stays:
            yield (events.c.chain == chain) & is_old & (events.c.number < stays)


def _without_values(which: ColumnElement[bool], connection: Connection) -> int:
    """Put the rows of calls in anew: in SQLite a row that becomes smaller leaves most of its page empty."""
    rows = connection.execute(select(*_CALL_ROW).where(which).with_for_update()).mappings().all()
    if rows:
        connection.execute(delete(calls).where(which))
        connection.execute(insert(calls), [{**row} for row in rows])
    return len(rows)


def _set_to_none(table: Table, columns: Sequence[str], which: ColumnElement[bool], connection: Connection) -> int:
    return connection.execute(update(table).where(which).values(dict.fromkeys(columns))).rowcount


def _too_many_values(database: Database, most: int) -> float | None:
    """The values of executions that ended at this time or earlier have to be removed to leave nine tenths of `most`
    bytes; None if they fit."""
    size, has_values = executions.c.value_bytes, executions.c.value_bytes.is_not(None)
    # The newest stay, however large, so that no program can have its own values removed.
    newest_first = select(executions.c.ended_at, size).where(has_values).order_by(executions.c.ended_at.desc())
    with database.begin(reads=True) as connection:
        total = connection.execute(select(func.sum(size)).where(has_values)).scalar() or 0
        return None if total <= most else _beyond(connection.execute(newest_first.offset(1)), most * 9 // 10)


def _too_many_rows(database: Database, most: int) -> float | None:
    """As `_too_many_values`, for the rows of executions and events."""
    ended = select(executions.c.ended_at.label("at"), executions.c.record_bytes.label("bytes")).where(
        executions.c.ended_at.is_not(None)
    )
    rows = union_all(ended, select(events.c.at, events.c.bytes)).subquery()
    with database.begin(reads=True) as connection:
        total = connection.execute(select(func.sum(rows.c.bytes))).scalar() or 0
        newest_first = select(rows.c.at, rows.c.bytes).order_by(rows.c.at.desc())
        return None if total <= most else _beyond(connection.execute(newest_first), most * 9 // 10)


def _beyond(newest_first: Iterable[AnyRow], most_bytes: int) -> float | None:
    total = 0
    for at, size in newest_first:
        total += size or 0
        if total > most_bytes:
            return float(at)
    return None
