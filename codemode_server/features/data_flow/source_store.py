"""Sources that sessions have read, in the database, which several products may share. None holds a copy: what a session
has read is looked up whenever it matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, Text, bindparam, delete, literal, or_, select, union_all, update

from codemode_server.domain.flows import EPHEMERAL, SHARED, WORKSPACE, Holder, Source
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.tables import executions, session_sources
from codemode_server.storage.upserts import upsert
from codemode_server.support.private_files import NotPrivate

EPHEMERAL_SECONDS = 86_400.0
CLOCK_SECONDS = 0.02
"""File systems have a coarser clock than the host, which may be behind by this much."""
_SESSION_DAYS = 30.0
"""Retention of a session's sources, for executions that are resumed."""
_MAX_ROWS = 20_000
"""More stay only of the last day, so nobody's rows displace those of a session of others that goes on."""

_c = session_sources.c
_ALL = select(session_sources).order_by(_c.at)
_IS_OWN = _c.principal == bindparam("of_principal")
_IS_HELD = _IS_OWN, _c.holder == bindparam("of_holder")
_IS_VALID = or_(_c.holder != EPHEMERAL, _c.at >= bindparam("since"))
_OF_SESSION = select(session_sources).where(*_IS_HELD, _IS_VALID).order_by(_c.at)
_FORGET = delete(session_sources).where(*_IS_HELD)
_PROGRAMS = select(*(executions.c[it] for it in ("execution_id", "principal", "holder", "owner", "started_at"))).where(
    executions.c.holder.is_not(None)
)
# One list of names, since SQLite searches no index for the parts of an `OR`.
_HOLDERS = union_all(
    *(select(literal(name)) for name in SHARED),
    select(bindparam("of_holder", type_=Text)),
    select(executions.c.holder).where(
        executions.c.principal == bindparam("of_principal"), executions.c.holder.is_not(None)
    ),
)
_SEEN_BY = select(session_sources).where(_IS_OWN, _c.holder.in_(_HOLDERS), _IS_VALID).order_by(_c.at)
_SETTLE = update(executions).values(holder=None)
_SETTLE_ONE = _SETTLE.where(executions.c.execution_id == bindparam("of_execution"))
_SETTLE_OLD = _SETTLE.where(executions.c.holder.is_not(None), executions.c.started_at < bindparam("before"))
_OF_SESSIONS = _c.holder.not_in(SHARED)
_IN_FILES = _c.holder.in_(SHARED)
_WITH_FILES = select(_c.principal).where(_IN_FILES).distinct()
_FORGET_FILES = delete(session_sources).where(
    _IS_OWN, _IN_FILES, _c.at > bindparam("newest"), _c.at < bindparam("before")
)
_FORGET_OLD = delete(session_sources).where(_OF_SESSIONS, _c.at < bindparam("before"))
_NEWEST_SURPLUS = select(_c.at).order_by(_c.at.desc()).limit(1).offset(bindparam("most")).scalar_subquery()
_FORGET_SURPLUS = _FORGET_OLD.where(_c.at < _NEWEST_SURPLUS)


class SourceStore:
    """What raises, raises `JournalUnavailable`: the store can't be used, so what was read is unknown."""

    def __init__(self, database: Database, thread: DatabaseThread, clock: Callable[[], float] = time.time) -> None:
        """`database` is used at the start and by commands, `thread` while programs run."""
        self._database = database
        self._thread = thread
        self._clock = clock

    def all(self) -> dict[Holder, list[Source]]:
        """Blocks."""
        found: dict[Holder, list[Source]] = {}
        with self._database.begin(reads=True) as connection:
            for row in connection.execute(_ALL):
                found.setdefault((PrincipalId(row.principal), row.holder), []).append(_source(row))
        return found

    def settle(self, ownership: Ownership, newest_change: Callable[[Principal], float]) -> None:
        """Note what programs that killed products ran may have written to /workspace, and forget what is in no file any
        more; `newest_change` tells when something in a principal's workspace was last changed. Blocks."""
        now = self._clock()
        with self._database.begin(reads=True) as connection:
            owners = {it.owner for it in connection.execute(_PROGRAMS)}
        try:
            others = ownership.others()  # after: whoever begins a program from now on was alive before
        except (NotPrivate, OSError):  # whether they run is unknown, so they stay
            return
        principals = self._database.transact(partial(self._settle, owners - others))
        if others:  # what they run may write at any time
            return
        newest = [{"of_principal": it, "newest": newest_change(Principal(it)) + CLOCK_SECONDS} for it in principals]
        if rows := [{**it, "before": now} for it in newest]:
            self._database.transact(lambda connection: connection.execute(_FORGET_FILES, rows))

    def _settle(self, dead: set[str | None], connection: Connection) -> list[PrincipalId]:
        for it in connection.execute(_PROGRAMS).all():
            if it.owner in dead:
                principal = PrincipalId(it.principal)
                rows = connection.execute(_OF_SESSION, self._held((principal, it.holder))).all()
                passed = [replace(_source(row), at=it.started_at) for row in rows]
                _add((principal, WORKSPACE), passed, connection)
                connection.execute(_SETTLE_ONE, {"of_execution": it.execution_id})
        oldest = {"before": self._clock() - _SESSION_DAYS * 86_400}
        connection.execute(_FORGET_OLD, oldest)
        connection.execute(_SETTLE_OLD, oldest)
        connection.execute(_FORGET_SURPLUS, {"most": _MAX_ROWS, "before": self._clock() - EPHEMERAL_SECONDS})
        return [*connection.execute(_WITH_FILES).scalars()]

    def post(self, holder: Holder, sources: Sequence[Source], on_error: Callable[[Exception], None]) -> None:
        """Queue sources, which are committed with the next step that is queued, or before it."""
        self._thread.post(partial(_add, holder, sources), on_error=on_error)

    async def add(self, holder: Holder, sources: Sequence[Source]) -> None:
        """Returns once it is committed."""
        await self._thread.run(partial(_add, holder, sources))

    async def forget(self, holders: Sequence[Holder]) -> None:
        """Forget what these have read, in every product; what they read from now on counts."""
        rows = [self._held(it) for it in holders]
        await self._thread.run(lambda connection: connection.execute(_FORGET, rows), is_durable=True)

    async def of_session(self, holder: Holder) -> Sequence[Source]:
        """Sources that a session has read, in any product."""
        return [_source(row) for row in await self._thread.rows(_OF_SESSION, self._held(holder))]

    async def seen_by(self, holder: Holder) -> Sequence[tuple[Holder, Source]]:
        """The sources that were read under this name, or that may be in /workspace by now: with all that this product
        has queued, and all that others have committed."""
        rows = await self._thread.rows(_SEEN_BY, self._held(holder))
        return [((holder[0], row.holder), _source(row)) for row in rows]

    def _held(self, holder: Holder) -> dict[str, object]:
        return {"of_principal": holder[0], "of_holder": holder[1], "since": self._clock() - EPHEMERAL_SECONDS}


def _add(holder: Holder, sources: Sequence[Source], connection: Connection) -> None:
    """What sessions that end with their request have read counts from the last time on, all else from the first."""
    principal, name = holder
    rows = [
        {"principal": principal, "holder": name, "server": it.server, "tool": it.tool, "title": it.title}
        | {"labels": " ".join(sorted(it.labels)), "at": it.at}
        for it in sources
    ]
    if rows and name == EPHEMERAL:
        connection.execute(upsert(connection, session_sources, "at"), rows)
    elif rows:
        connection.execute(upsert(connection, session_sources, least=("at",)), rows)


def _source(row: Row[Any]) -> Source:
    labels = frozenset(row.labels.split())
    return Source(row.server, row.tool, row.title, labels, row.at, is_in_workspace=row.holder in SHARED)
