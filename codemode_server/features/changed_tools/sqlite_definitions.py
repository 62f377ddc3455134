"""The store of tools' definitions on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

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
from codemode_server.storage.database import Database, placeholders
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.server_texts import ServerTexts

_COLUMNS = "server, tool, digest, former, seen_at, accepted_at, description_mark, schema_mark"


class SqliteDefinitions:
    """Every method raises `JournalUnavailable` if the store can't be used."""

    def __init__(self, database: Database, thread: DatabaseThread, texts: ServerTexts) -> None:
        """`database` reads, `thread` writes."""
        self._database = database
        self._thread = thread
        self._texts = texts

    def delete_plain(self) -> None:
        """Delete plain texts of servers that are protected now: a definition is then known by its digest alone."""
        self._thread.post(self._delete_plain, "tool definitions of protected servers can't be deleted")

    def known(self, principal: Principal, server: str | None = None) -> list[KnownDefinition]:
        """The definitions of this principal, of one server or tool by its raw name if one is given. Blocks briefly."""
        with self._database.begin(reads=True) as connection:
            return _known(connection, principal, server)

    def text(self, principal: Principal, server: str, tool: str, digest: str) -> str:
        """The canonical text of a definition; empty if it is not stored (any more). Blocks briefly."""
        with self._database.begin(reads=True) as connection:
            row = connection.exec_driver_sql(
                "SELECT definition FROM tool_definitions WHERE (principal, server, tool, digest) = (?, ?, ?, ?)",
                (principal.principal_id, server, tool, digest),
            ).fetchone()
        place = _place(principal.principal_id, server, tool, digest)
        return self._texts.opened(server, row[0], place) if row else ""

    async def take(
        self, principal: Principal, server: str, listed: Sequence[ToolDefinition], *, accept_new: bool, at: float
    ) -> list[KnownDefinition]:
        """Add what `new_definitions` says of a listing; returns what is known of the server then. Of products that take
        listings of one server at once, only one is the first."""

        def take(connection: Connection) -> list[KnownDefinition]:
            known = by_tool(_known(connection, principal, server))
            new = new_definitions(server, known, listed, accept_new=accept_new, at=at)
            by_key = {(it.name, definition_digest(it)): it for it in listed} if new else {}
            for it in new:
                place = _place(principal.principal_id, server, it.tool, it.digest)
                text = canonical_text(by_key[it.tool, it.digest])
                _insert(connection, principal, it, self._texts.sealed(server, text, place))
            for tool in {it.tool for it in new} & known.keys():
                _forget_oldest(connection, principal, server, tool)
            return _known(connection, principal, server)

        return await self._thread.run(take)

    async def accept(self, principal: Principal, definition: KnownDefinition, *, at: float) -> bool:
        """Note that the person accepts it; False if it is not known (any more)."""
        key = principal.principal_id, definition.server, definition.tool, definition.digest

        def accept(connection: Connection) -> bool:
            changed = connection.exec_driver_sql(
                "UPDATE tool_definitions SET accepted_at = ? WHERE (principal, server, tool, digest) = (?, ?, ?, ?)",
                (at, *key),
            ).rowcount
            _forget_oldest(connection, principal, definition.server, definition.tool)
            return changed > 0

        return await self._thread.run(accept, is_durable=True)

    def _delete_plain(self, connection: Connection) -> None:
        self._texts.change_plain(
            connection,
            "SELECT DISTINCT server FROM tool_definitions",
            "UPDATE tool_definitions SET definition = x'', size = 0 WHERE server = ? AND substr(definition, 1, 1) = ?",
        )


def _place(principal_id: str, server: str, tool: str, digest: str) -> str:
    return f"tool_definitions/{principal_id}/{server}/{tool}/{digest}"


def _known(connection: Connection, principal: Principal, server: str | None) -> list[KnownDefinition]:
    rows = connection.exec_driver_sql(
        f"SELECT {_COLUMNS} FROM tool_definitions"  # noqa: S608
        " WHERE principal = ?1 AND (?2 IS NULL OR server = ?2) ORDER BY seen_at",
        (principal.principal_id, server),
    )
    return [KnownDefinition(*row) for row in rows]


def _insert(connection: Connection, principal: Principal, it: KnownDefinition, data: bytes) -> None:
    """`data` is the text as it is stored; of a server that has too many definitions, or too long ones, none is."""
    count, size = connection.exec_driver_sql(
        "SELECT COUNT(*), IFNULL(SUM(size), 0) FROM tool_definitions WHERE (principal, server) = (?, ?)",
        (principal.principal_id, it.server),
    ).fetchone()
    if count >= MAX_DEFINITIONS:
        return
    data = data if size + len(data) <= MAX_TEXT_BYTES else b""
    row = {name: getattr(it, name) for name in _COLUMNS.split(", ")}
    row |= {"principal": principal.principal_id, "definition": data, "size": len(data)}
    connection.exec_driver_sql(
        f"INSERT INTO tool_definitions ({', '.join(row)}) VALUES ({placeholders(len(row))})"  # noqa: S608
        " ON CONFLICT DO UPDATE SET accepted_at = excluded.accepted_at",
        (*row.values(),),
    )


def _forget_oldest(connection: Connection, principal: Principal, server: str, tool: str) -> None:
    key = principal.principal_id, server, tool
    for condition, most, order in (
        ("accepted_at IS NULL", MAX_WAITING, "seen_at"),
        ("accepted_at IS NOT NULL", MAX_ACCEPTED, "accepted_at"),
    ):
        connection.exec_driver_sql(
            "DELETE FROM tool_definitions WHERE (principal, server, tool) = (?, ?, ?)"  # noqa: S608
            f" AND digest IN (SELECT digest FROM tool_definitions WHERE (principal, server, tool) = (?, ?, ?)"
            f" AND {condition} ORDER BY {order} DESC, rowid DESC LIMIT -1 OFFSET ?)",
            (*key, *key, most),
        )
