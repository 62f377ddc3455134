"""Sources that sessions have read, in the database. Changes are queued, and done before what is queued later."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Delete, Row, Text, Update, bindparam, delete, literal, select, union_all, update

from codemode_server.domain.flows import SHARED, Holder, LeftPrograms, RunningProgram, Source
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.ownership import LockedFolders, Ownership
from codemode_server.storage.tables import executions, session_sources
from codemode_server.storage.upserts import upsert
from codemode_server.support.file_stamps import FileStamp
from codemode_server.support.private_files import NotPrivate, replace_private

logger = logging.getLogger(__name__)

_FORGOTTEN_FILE = "forgotten-sources.json"
_MAX_FORGOTTEN = 1_000
_SESSION_DAYS = 30.0
"""Retention of a session's sources, for executions that are resumed."""
_MAX_ROWS = 20_000
_LOSS = "what a session has read can't be stored for next time"

_c = session_sources.c
_ALL = select(session_sources).order_by(_c.at)
_IS_OWN = _c.principal == bindparam("of_principal")
_IS_HELD = _IS_OWN, _c.holder == bindparam("of_holder")
_OF_SESSION = select(session_sources).where(*_IS_HELD).order_by(_c.at)
_FORGET = delete(session_sources).where(*_IS_HELD)
_REMOVE = delete(session_sources).where(*_IS_HELD, _c.server == bindparam("of_server"), _c.tool == bindparam("of_tool"))
_PROGRAMS = select(*(executions.c[it] for it in ("execution_id", "principal", "holder", "owner", "started_at"))).where(
    executions.c.holder.is_not(None)
)
# One list of names, since SQLite searches no index for the parts of an `OR`.
_HOLDERS = union_all(
    *(select(literal(name)) for name in SHARED),
    select(bindparam("of_holder", type_=Text)),
    select(executions.c.holder).where(
        executions.c.principal == bindparam("of_principal"),
        executions.c.holder.is_not(None),
        executions.c.owner.is_distinct_from(bindparam("of_owner")),
    ),
)
_SHARED_WITH = select(session_sources).where(_IS_OWN, _c.holder.in_(_HOLDERS)).order_by(_c.at)
_SETTLE = update(executions).values(holder=None)
_SETTLE_ONE = _SETTLE.where(executions.c.execution_id == bindparam("of_execution"))
_SETTLE_OLD = _SETTLE.where(executions.c.holder.is_not(None), executions.c.started_at < bindparam("before"))
_OF_SESSIONS = _c.holder.not_in(SHARED)
_FORGET_OLD = delete(session_sources).where(_OF_SESSIONS, _c.at < bindparam("before"))
_NEWEST_SURPLUS = select(_c.at).order_by(_c.at.desc()).limit(1).offset(bindparam("most")).scalar_subquery()
_FORGET_SURPLUS = delete(session_sources).where(_OF_SESSIONS, _c.at < _NEWEST_SURPLUS)


class SourceStore:
    """The product's own running programs are told from those of others by the name of their owner."""

    def __init__(
        self, database: Database, thread: DatabaseThread, folder: Path, ownership: Ownership | None = None
    ) -> None:
        """Uses `database` for what is needed at once, and `thread` for the rest. `folder`: that of the state."""
        self._database = database
        self._thread = thread
        self._ownership = ownership or LockedFolders(folder)
        self.forgotten = ForgottenSources(folder)

    def load(self) -> dict[Holder, list[Source]]:
        found: dict[Holder, list[Source]] = {}
        with self._database.begin(reads=True) as connection:
            for row in connection.execute(_ALL):
                found.setdefault((PrincipalId(row.principal), row.holder), []).append(_source(row))
        self._thread.post(_forget_old, _LOSS)
        return found

    def left_programs(self) -> LeftPrograms:
        try:
            others = self._ownership.others()
        except (NotPrivate, OSError):  # whether they run is unknown, so they stay
            return LeftPrograms((), is_alone=False)
        with self._database.begin(reads=True) as connection:
            programs = [
                RunningProgram(ExecutionId(it.execution_id), (PrincipalId(it.principal), it.holder), it.started_at)
                for it in connection.execute(_PROGRAMS)
                if it.owner not in others
            ]
        return LeftPrograms(programs, is_alone=not others)

    def settle(self, programs: Sequence[RunningProgram]) -> None:
        """What these could pass on was added."""
        self._post(_SETTLE_ONE, [{"of_execution": it.execution_id} for it in programs])

    def add(self, holder: Holder, sources: Sequence[Source]) -> None:
        principal, name = holder
        rows = [
            {"principal": principal, "holder": name, "server": it.server, "tool": it.tool, "title": it.title}
            | {"labels": " ".join(sorted(it.labels)), "at": it.at}
            for it in sources
        ]
        if rows:
            self._thread.post(
                lambda connection: connection.execute(
                    upsert(connection, session_sources, "title", "labels", "at"), rows
                ),
                _LOSS,
            )

    def remove(self, holder: Holder, sources: Sequence[Source]) -> None:
        self._post(_REMOVE, [{**_held(holder), "of_server": it.server, "of_tool": it.tool} for it in sources])

    async def forget(self, holders: Sequence[Holder]) -> None:
        """Forget what these have read, here and in every running product. Raises `JournalUnavailable`: it can't be
        deleted; `OSError`: running products can't be notified."""
        rows = [_held(it) for it in holders]
        await self._thread.run(lambda connection: connection.execute(_FORGET, rows), is_durable=True)
        # Last: what a product reads after it has noticed must not be deleted.
        self.forgotten.note(holders)

    async def of_session(self, holder: Holder) -> Sequence[Source]:
        """Sources that a session is known to have read, in any product on the same store. Raises `JournalUnavailable`:
        the store can't be used."""
        return [_source(row) for row in await self._thread.rows(_OF_SESSION, _held(holder))]

    def shared_with(self, holder: Holder) -> Sequence[tuple[Holder, Source]]:
        """The sources that products on the same store have read under this name, or may have written to its /workspace.
        Raises `JournalUnavailable`: the store can't be used."""
        which = {**_held(holder), "of_owner": self._ownership.name()}
        with self._database.begin(reads=True) as connection:
            rows = connection.execute(_SHARED_WITH, which).all()
        return [((holder[0], row.holder), _source(row)) for row in rows]

    def _post(self, statement: Update | Delete, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            self._thread.post(lambda connection: connection.execute(statement, rows), _LOSS)


def _forget_old(connection: Connection) -> None:
    oldest = {"before": time.time() - _SESSION_DAYS * 86_400}
    connection.execute(_FORGET_OLD, oldest)
    connection.execute(_SETTLE_OLD, oldest)
    connection.execute(_FORGET_SURPLUS, {"most": _MAX_ROWS})


def _held(holder: Holder) -> dict[str, object]:
    """The values of `_IS_HELD`."""
    return {"of_principal": holder[0], "of_holder": holder[1]}


def _source(row: Row[Any]) -> Source:
    labels = frozenset(row.labels.split())
    return Source(row.server, row.tool, row.title, labels, row.at, is_in_workspace=row.holder in SHARED)


class ForgottenSources:
    """A file in the state folder that lists whose sources the person has forgotten, and when. Running servers hold
    sources in memory. They look whether the file has changed before they add a source or decide by one, which costs
    less than a query; so nothing that is read after a server has noticed is forgotten with the rest."""

    def __init__(self, folder: Path) -> None:
        """Counts the present content as noticed."""
        self._path = folder / _FORGOTTEN_FILE
        self._stamp = FileStamp.at(self._path)
        self._times = self._read()

    def take(self) -> list[Holder]:
        """Those whose sources were forgotten since this was asked last."""
        if (stamp := FileStamp.at(self._path)) == self._stamp:
            return []
        before, self._times = self._times, self._read()
        self._stamp = stamp
        return [holder for holder, at in self._times.items() if before.get(holder) != at]

    def note(self, holders: Iterable[Holder]) -> None:
        """Have every product forget these. Raises `OSError`: the file can't be written."""
        times = self._read() | dict.fromkeys(holders, time.time())
        newest = sorted(times.items(), key=lambda it: it[1])[-_MAX_FORGOTTEN:]
        replace_private(self._path, json.dumps([[*holder, at] for holder, at in newest]).encode())

    def _read(self) -> dict[Holder, float]:
        try:
            rows = json.loads(self._path.read_bytes())
            return {(PrincipalId(principal), holder): float(at) for principal, holder, at in rows}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError) as error:
            logger.warning("nothing is forgotten of what sessions have read: %s", error)
            return {}
