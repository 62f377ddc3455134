"""Stores what can be made again: lists of tools, learned types, counts of use, vectors of texts.

No method raises: what can't be stored is made again. The first failure of each kind is logged.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, tuple_, update

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tables import cache
from codemode_server.storage.upserts import upsert

logger = logging.getLogger(__name__)

_MAX_DAYS = 180
"""Rows that were not used for so long are deleted."""
_DAY = 86_400.0
_BATCH_KEYS = 500

Key = tuple[str, ...]
Entry = tuple[bytes, float]
"""A value, and when it was last used, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a row holds."""

    name: str
    title: str
    """For messages."""
    most: int
    """Of more rows the least recently used are deleted."""


LISTINGS = Kind("listings", "lists of tools", 500)
"""Configurations that use one state folder may reach a server of the same name in different ways."""
TYPES = Kind("types", "what earlier calls returned", 2_000)
USES = Kind("uses", "which tools are used", 2_000)
VECTORS = Kind("vectors", "vectors of tools", 50_000)
"""With a small model each has 1.5 KB."""
STATES = Kind("states", "states of servers", 50)
"""One for each running product."""
_KINDS = [it.name for it in (LISTINGS, TYPES, USES, VECTORS, STATES)]

_KIND, _KEYS = cache.c.kind == bindparam("kind"), cache.c.key.in_(bindparam("keys", expanding=True))
_LOAD = (
    select(cache.c.key, cache.c.value, cache.c.used_at)
    .where(_KIND)
    .order_by(cache.c.used_at.desc())
    .limit(bindparam("most"))
)
_GET = select(cache.c.key, cache.c.value, cache.c.used_at).where(_KIND, _KEYS)
_USE = update(cache).where(cache.c.kind == bindparam("of"), _KEYS).values(used_at=bindparam("now"))
_FORGET = delete(cache).where(_KIND)
_SURPLUS = select(cache.c.key).where(_KIND).order_by(cache.c.used_at.desc()).offset(bindparam("most"))
_DELETE_SURPLUS = delete(cache).where(_KIND, cache.c.key.in_(_SURPLUS))
_OLD = (
    select(cache.c.kind, cache.c.key)
    .where(cache.c.kind.in_(_KINDS), cache.c.used_at < bindparam("before"))  # by the index
    .limit(bindparam("most"))
)
_DELETE_OLD = delete(cache).where(tuple_(cache.c.kind, cache.c.key).in_(_OLD))


class Cache:
    """The rows of one kind, in any thread."""

    def __init__(self, database: Database, thread: DatabaseThread, kind: Kind) -> None:
        """`database` reads, `thread` writes."""
        self._database = database
        self._thread = thread
        self._kind = kind.name
        self._title = kind.title
        self._most = kind.most
        self._has_failed = False

    def load(self) -> dict[Key, Entry]:
        """All rows, the oldest first. Blocks."""
        rows = self._read(_LOAD, most=self._most)
        return {_key(key): (value, used_at) for key, value, used_at in reversed(rows)}

    def get(self, keys: Collection[Key]) -> dict[Key, bytes]:
        """The values of these keys, as far as there are any. Blocks."""
        found = dict[Key, bytes]()
        texts, now = [*map(_text, keys)], time.time()
        for start in range(0, len(texts), _BATCH_KEYS):
            rows = self._read(_GET, keys=texts[start : start + _BATCH_KEYS])
            found |= {_key(it.key): it.value for it in rows}
            # Once a day: else there would be a write for each of them at each start.
            if used := [it.key for it in rows if it.used_at < now - _DAY]:
                self._post(partial(_execute, _USE, {"of": self._kind, "keys": used, "now": now}))
        return found

    def put(self, values: Mapping[Key, bytes]) -> None:
        """Store values in place of what is there; returns before they are stored."""
        now = time.time()
        entries = {key: (value, now) for key, value in values.items()}

        def put(connection: Connection) -> None:
            self._write(connection, entries)
            self._delete_surplus(connection)

        self._post(put)

    async def update(self, changes: Mapping[Key, Callable[[Entry | None], Entry]]) -> bool:
        """Replace each stored entry, or None, by what its function returns, in one transaction, so that other processes
        lose nothing; the functions run in another thread, and again after a failure. False if that was not possible."""

        def replace(connection: Connection) -> None:
            rows = connection.execute(_GET, {"kind": self._kind, "keys": [*map(_text, changes)]})
            stored = {_key(key): (value, used_at) for key, value, used_at in rows}
            self._write(connection, {key: change(stored.get(key)) for key, change in changes.items()})
            if changes.keys() - stored.keys():
                self._delete_surplus(connection)

        try:
            await self._thread.run(replace)
        except JournalUnavailable as error:
            self._log("stored for next time", error)
            return False
        return True

    def forget(self) -> None:
        """Delete all rows."""
        self._post(partial(_execute, _FORGET, {"kind": self._kind}))

    def _read(self, statement: Any, **values: object) -> list[Any]:
        try:
            with self._database.begin(reads=True) as connection:
                return [*connection.execute(statement, {"kind": self._kind, **values})]
        except JournalUnavailable as error:
            self._log("read", error)
            return []

    def _write(self, connection: Connection, entries: Mapping[Key, Entry]) -> None:
        rows = [
            {"kind": self._kind, "key": _text(key), "value": value, "used_at": used_at}
            for key, (value, used_at) in entries.items()
        ]
        connection.execute(upsert(connection, cache, "value", "used_at"), rows)

    def _delete_surplus(self, connection: Connection) -> None:
        connection.execute(_DELETE_SURPLUS, {"kind": self._kind, "most": self._most})

    def _post(self, step: Callable[[Connection], object]) -> None:
        self._thread.post(step, on_error=partial(self._log, "stored for next time"))

    def _log(self, what: str, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.warning("%s can't be %s: %s", self._title, what, error)


def delete_old_rows(connection: Connection, now: float, most: int) -> int:
    """Delete some of the rows that nobody has used for long, of all kinds; returns how many."""
    return connection.execute(_DELETE_OLD, {"before": now - _MAX_DAYS * _DAY, "most": most}).rowcount


def _execute(statement: Any, values: Mapping[str, object], connection: Connection) -> None:
    connection.execute(statement, values)


def _text(key: Key) -> str:
    return json.dumps(key)  # as ASCII, since names may have characters that a database refuses


def _key(text: str) -> Key:
    return tuple(json.loads(text))
