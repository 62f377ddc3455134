"""The tokens of exchanges on SQLite: written by products, summed up for the person."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import Connection

from codemode_server.domain import savings
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.domain.savings import Exchange, ServerRow, ServerTokens, TokenUsage, UsageRow
from codemode_server.storage.database import Database, placeholders
from codemode_server.storage.database_thread import DatabaseThread

_MAX_NAME_CHARACTERS = 1_000
_DELETED_AT_ONCE = 20
_COLUMNS = ("at", "tool", "execution_id", "sent", "returned", "own_definitions", "all_definitions", "turns")
"""Columns that are fields of an exchange."""
_SUMS = (  # in the order of the fields of `TokenUsage`
    "COUNT(*), COUNT(DISTINCT execution_id), SUM(calls), SUM(turns), SUM(sent), SUM(returned), SUM(own_definitions),"
    " SUM(arguments), SUM(results), SUM(all_definitions * turns)"
)


def record_exchange(thread: DatabaseThread, exchange: Exchange) -> None:
    """Queue an exchange to be written. A failure is logged and stops nothing."""
    thread.post(lambda connection: _insert(connection, exchange), "a count of tokens is lost")


def delete_old_rows(before: float, connection: Connection) -> int:
    """Delete exchanges from before a time, and surplus ones."""
    # Numbers are in the order of time, so that no more is read than is deleted.
    recent = "SELECT number FROM savings WHERE at >= ? ORDER BY number LIMIT 1"
    old = f"number < MAX(COALESCE(({recent}), 1e18), (SELECT MAX(number) FROM savings) - ? + 1)"  # noqa: S608
    left = "number < COALESCE((SELECT MIN(number) FROM savings), 1e18)"
    deleted = 0
    for table, key, which, values in (
        ("savings", "number", old, (before, savings.MAX_EXCHANGES)),
        ("savings_by_server", "number, server", left, ()),
    ):
        statement = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {which} LIMIT ?)"  # noqa: S608
        deleted += connection.exec_driver_sql(statement, (*values, _DELETED_AT_ONCE)).rowcount
    return deleted


class SqliteSavings:
    """Sums up what products wrote. Reads in a thread, one sum at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def total(self, principal: Principal, since: float) -> TokenUsage:
        """Raises `JournalUnavailable`, as all that reads."""
        statement = f"SELECT {_SUMS} FROM savings WHERE principal = ? AND at >= ?"  # noqa: S608
        (row,) = await self._database.rows(statement, (principal.principal_id, since))
        return _usage(row)

    async def days(self, principal: Principal, since: float, limit: int) -> list[UsageRow]:
        """The days of this machine's clock with exchanges, newest first."""
        return await self._rows("date(at, 'unixepoch', 'localtime')", "at IS NOT NULL", principal, since, limit)

    async def executions(self, principal: Principal, since: float, limit: int) -> list[UsageRow]:
        """The newest executions, newest first; exchanges without one are in no row."""
        return await self._rows("execution_id", "execution_id IS NOT NULL", principal, since, limit)

    async def _rows(self, name: str, which: str, principal: Principal, since: float, limit: int) -> list[UsageRow]:
        statement = (
            f"SELECT {name} AS name, MIN(at), {_SUMS} FROM savings WHERE principal = ? AND at >= ? AND {which}"  # noqa: S608
            " GROUP BY name ORDER BY MAX(at) DESC LIMIT ?"
        )
        rows = await self._database.rows(statement, (principal.principal_id, since, limit))
        return [UsageRow(row[0], row[1], _usage(row[2:])) for row in rows]

    async def servers(self, principal: Principal, since: float, limit: int) -> list[ServerRow]:
        """The servers whose direct calls would have cost most first."""
        rows = await self._database.rows(
            "SELECT b.server, SUM(b.calls), SUM(b.arguments), SUM(b.results) FROM savings s"
            " JOIN savings_by_server b USING (number) WHERE s.principal = ? AND s.at >= ?"
            " GROUP BY b.server ORDER BY SUM(b.arguments + b.results) DESC, b.server LIMIT ?",
            (principal.principal_id, since, limit),
        )
        return [ServerRow(name, ServerTokens(*sums)) for name, *sums in rows]

    async def execution(self, principal: Principal, execution_id: ExecutionId) -> TokenUsage | None:
        """Usage of one execution; None if nothing of it is stored (any more)."""
        # The plus keeps SQLite from the index by time, which has all of the principal's exchanges.
        statement = f"SELECT {_SUMS} FROM savings WHERE execution_id = ? AND +principal = ?"  # noqa: S608
        (row,) = await self._database.rows(statement, (execution_id, principal.principal_id))
        usage = _usage(row)
        return usage if usage.exchanges else None


def _insert(connection: Connection, exchange: Exchange) -> None:
    usage = exchange.usage
    row = {name: getattr(exchange, name) for name in _COLUMNS} | {
        "principal": exchange.principal.principal_id,
        "calls": usage.calls,
        "arguments": usage.arguments,
        "results": usage.results,
    }
    added = connection.exec_driver_sql(
        f"INSERT INTO savings ({', '.join(row)}) VALUES ({placeholders(len(row))})",  # noqa: S608
        (*row.values(),),
    )
    servers = exchange.servers.items()
    connection.exec_driver_sql(
        "INSERT OR IGNORE INTO savings_by_server VALUES (?, ?, ?, ?, ?)",
        [(added.lastrowid, name[:_MAX_NAME_CHARACTERS], it.calls, it.arguments, it.results) for name, it in servers],
    )


def _usage(sums: Any) -> TokenUsage:
    names = (it.name for it in fields(TokenUsage))
    return TokenUsage(**{name: int(value or 0) for name, value in zip(names, sums, strict=True)})
