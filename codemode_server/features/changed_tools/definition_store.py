"""The store of tools' definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields

from sqlalchemy import BigInteger, Connection, bindparam, cast, delete, func, select, update

from codemode_server.domain.definitions import (
    MAX_ACCEPTED,
    MAX_DEFINITIONS,
    MAX_TEXT_BYTES,
    MAX_WAITING,
    KnownDefinition,
    by_tool,
    canonical_text,
    definition_digest,
    new_definitions,
)
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import ToolDefinition
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.storage.tables import tool_definitions
from codemode_server.storage.upserts import upsert

_IT = tool_definitions.c
_KEY = ("principal", "server", "tool", "digest")
_OF_PRINCIPAL = _IT.principal == bindparam("of_principal")
_OF_SERVER = (_OF_PRINCIPAL, _IT.server == bindparam("of_server"))
_OF_TOOL = (*_OF_SERVER, _IT.tool == bindparam("of_tool"))
_ONE = (*_OF_TOOL, _IT.digest == bindparam("of_digest"))

_KNOWN = (
    select(*(_IT[it.name] for it in fields(KnownDefinition))).where(_OF_PRINCIPAL).order_by(_IT.seen_at, _IT.number)
)
_KNOWN_OF_SERVER = _KNOWN.where(_IT.server == bindparam("of_server"))
_TEXT = select(_IT.definition).where(*_ONE)
_LAST = select(func.coalesce(func.max(tool_definitions.alias().c.number), 0)).scalar_subquery()
_TOTALS = select(cast(func.coalesce(func.sum(_IT.size), 0), BigInteger), _LAST).where(*_OF_SERVER)
_ACCEPT = update(tool_definitions).where(*_ONE).values(accepted_at=bindparam("at"))
_DELETIONS = tuple(
    delete(tool_definitions).where(
        _IT.number.in_(select(_IT.number).where(*_OF_TOOL, which).order_by(*newest_first).offset(most))
    )
    for which, newest_first, most in (
        (_IT.accepted_at.is_(None), (_IT.seen_at.desc(), _IT.number.desc()), MAX_WAITING),
        (_IT.accepted_at.is_not(None), (_IT.accepted_at.desc(), _IT.number.desc()), MAX_ACCEPTED),
    )
)


class DefinitionStore:
    """Every method raises `JournalUnavailable` if the store can't be used."""

    def __init__(self, database: Database, thread: DatabaseThread, texts: SealedTexts) -> None:
        """`database` reads, `thread` writes."""
        self._database = database
        self._thread = thread
        self._texts = texts

    def known(self, principal: Principal, server: str | None = None) -> list[KnownDefinition]:
        """The definitions of this principal, of one server or tool by its raw name if one is given. Blocks."""
        with self._database.begin(reads=True) as connection:
            return _known(connection, principal, server)

    def text(self, principal: Principal, server: str, tool: str, digest: str) -> str:
        """The canonical text of a definition; empty if it is not stored (any more). Blocks."""
        with self._database.begin(reads=True) as connection:
            stored = connection.execute(_TEXT, _values(principal, server, tool, digest)).scalar()
        return self._texts.opened(server, stored or b"", _place(principal, server, tool, digest))

    async def take(
        self, principal: Principal, server: str, listed: Sequence[ToolDefinition], *, accept_new: bool, at: float
    ) -> list[KnownDefinition]:
        """Add what `new_definitions` says of a listing; returns what is known of the server then. Of products that take
        listings of one server at once, only one is the first."""

        def take(connection: Connection) -> list[KnownDefinition]:
            stored = _known(connection, principal, server)
            known = by_tool(stored)
            new = new_definitions(server, known, listed, accept_new=accept_new, at=at)
            if not new:
                return stored
            if added := new[: max(0, MAX_DEFINITIONS - len(stored))]:
                rows = self._rows(connection, principal, added, listed)
                connection.execute(upsert(connection, tool_definitions, "accepted_at", key=_KEY), rows)
            _forget_oldest(connection, principal, server, {it.tool for it in new} & known.keys())
            return _known(connection, principal, server)

        return await self._thread.run(take)

    def _rows(
        self,
        connection: Connection,
        principal: Principal,
        added: Sequence[KnownDefinition],
        listed: Sequence[ToolDefinition],
    ) -> list[dict[str, object]]:
        """With their texts, as long as those of the server are not too large together. Two processes that take listings
        at once give the same numbers, so that one of them fails, and does its step again."""
        by_key = {(it.name, definition_digest(it)): it for it in listed}
        total, last = connection.execute(_TOTALS, _values(principal, added[0].server)).one()
        rows = []
        for number, it in enumerate(added, last + 1):
            text, place = canonical_text(by_key[it.tool, it.digest]), _place(principal, it.server, it.tool, it.digest)
            data = self._texts.sealed(it.server, text, place)
            data = data if total + len(data) <= MAX_TEXT_BYTES else b""
            total += len(data)
            row = {"number": number, "principal": principal.principal_id, **asdict(it)}
            rows.append({**row, "definition": data, "size": len(data)})
        return rows

    async def accept(self, principal: Principal, definition: KnownDefinition, *, at: float) -> bool:
        """Note that the person accepts it; False if it is not known (any more)."""
        server, tool = definition.server, definition.tool
        values = _values(principal, server, tool, definition.digest)

        def accept(connection: Connection) -> bool:
            changed = connection.execute(_ACCEPT, {"at": at, **values}).rowcount
            _forget_oldest(connection, principal, server, [tool])
            return changed > 0

        return await self._thread.run(accept, is_durable=True)


def _values(principal: Principal, server: str = "", tool: str = "", digest: str = "") -> dict[str, str]:
    """Of a key, or of the part of it that a statement asks for."""
    return {"of_principal": principal.principal_id, "of_server": server, "of_tool": tool, "of_digest": digest}


def _place(principal: Principal, server: str, tool: str, digest: str) -> str:
    return f"tool_definitions/{principal.principal_id}/{server}/{tool}/{digest}"


def _known(connection: Connection, principal: Principal, server: str | None) -> list[KnownDefinition]:
    statement = _KNOWN if server is None else _KNOWN_OF_SERVER
    return [KnownDefinition(*row) for row in connection.execute(statement, _values(principal, server or ""))]


def _forget_oldest(connection: Connection, principal: Principal, server: str, tools: Iterable[str]) -> None:
    if values := [_values(principal, server, it) for it in sorted(tools)]:
        for statement in _DELETIONS:
            connection.execute(statement, values)
