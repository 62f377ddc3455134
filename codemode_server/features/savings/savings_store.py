"""The tokens of exchanges in the database: written by products, summed up for the person."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select

from codemode_server.domain import savings
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.domain.savings import Exchange, ServerRow, ServerTokens, TokenUsage, UsageRow
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tables import exchanges

_MAX_NAME_CHARACTERS = 1_000
_DELETED_AT_ONCE = 50
_INSERT = insert(exchanges)
_FIELDS = ("at", "tool", "execution_id", "sent", "returned", "own_definitions", "all_definitions", "turns")
"""Columns that are fields of an exchange."""
_OF_SERVER = {it: 0 for it in _FIELDS if it not in ("at", "tool", "execution_id")}
"""The tokens in the row of a server that belong to the whole exchange."""

_c = exchanges.c
_CALLS = tuple(func.sum(_c[it.name]) for it in fields(ServerTokens))
_SUMS = (  # in the order of the fields of `TokenUsage`
    func.count(),
    func.count(_c.execution_id.distinct()),
    *(func.sum(_c[it]) for it in ("calls", "turns", "sent", "returned", "own_definitions")),
    *(func.sum(_c[it]) for it in ("arguments", "results")),
    func.sum(_c.all_definitions * _c.turns),
)
_IS_OWN = _c.principal == bindparam("of_principal")
_IS_EXCHANGE = _c.server.is_(None)
_IS_IN_TIME = _c.at >= bindparam("since"), _c.at < bindparam("until")
_TOTAL = select(func.min(_c.at), *_SUMS).where(_IS_OWN, _IS_EXCHANGE, *_IS_IN_TIME)
_NEWEST = select(func.max(_c.at)).where(_IS_OWN, _IS_EXCHANGE, *_IS_IN_TIME)
_BY_EXECUTION = (
    select(_c.execution_id, func.min(_c.at), *_SUMS)
    .where(_IS_OWN, _IS_EXCHANGE, *_IS_IN_TIME, _c.execution_id.is_not(None))
    .group_by(_c.execution_id)
    .order_by(func.max(_c.at).desc())
    .limit(bindparam("most"))
)
_BY_SERVER = (
    select(_c.server, *_CALLS)
    .where(_IS_OWN, ~_IS_EXCHANGE, *_IS_IN_TIME)
    .group_by(_c.server)
    .order_by(func.sum(_c.arguments + _c.results).desc(), _c.server)
    .limit(bindparam("most"))
)
_OF_EXECUTION = select(*_SUMS).where(_IS_OWN, _IS_EXCHANGE, _c.execution_id == bindparam("of_execution"))
_OLDEST = select(_c.number, _c.at).order_by(_c.number).limit(bindparam("most")).subquery("oldest")
_HIGHEST = select(func.max(_c.number)).scalar_subquery()
_DELETE_OLD = delete(exchanges).where(
    _c.number.in_(
        # Numbers are in the order of time, so that no more is read than is deleted.
        select(_OLDEST.c.number).where(
            or_(_OLDEST.c.at < bindparam("before"), _OLDEST.c.number <= _HIGHEST - bindparam("most_rows"))
        )
    )
)


def record_exchange(thread: DatabaseThread, exchange: Exchange) -> None:
    """Queue an exchange to be written. A failure is logged and stops nothing."""
    thread.post(lambda connection: connection.execute(_INSERT, _rows(exchange)), "a count of tokens is lost")


def delete_old_rows(before: float, connection: Connection) -> int:
    """Delete exchanges from before a time, and surplus ones."""
    values = {"before": before, "most": _DELETED_AT_ONCE, "most_rows": savings.MAX_ROWS}
    return connection.execute(_DELETE_OLD, values).rowcount


class SavingsStore:
    """Sums up what products wrote. Reads in a thread, one sum at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def total(self, principal: Principal, since: float) -> TokenUsage:
        """Raises `JournalUnavailable`, as all that reads."""
        (row,) = await self._database.rows(_TOTAL, _which(principal, since))
        return _usage(tuple(row)[1:])

    async def days(self, principal: Principal, since: float, limit: int) -> list[UsageRow]:
        """The days of this machine's clock with exchanges, newest first."""
        which = _which(principal, since)

        def read(connection: Connection) -> list[UsageRow]:
            found: list[UsageRow] = []
            while len(found) < limit and (newest := connection.execute(_NEWEST, which).scalar()) is not None:
                day = time.localtime(newest)
                began_at = min(time.mktime((*day[:3], 0, 0, 0, 0, 0, -1)), newest)
                row = tuple(connection.execute(_TOTAL, {**which, "since": max(began_at, since)}).one())
                found.append(UsageRow(time.strftime("%Y-%m-%d", day), row[0], _usage(row[1:])))
                which["until"] = began_at
            return found

        return await self._database.read(read)

    async def executions(self, principal: Principal, since: float, limit: int) -> list[UsageRow]:
        """The newest executions, newest first; exchanges without one are in no row."""
        rows = await self._database.rows(_BY_EXECUTION, {**_which(principal, since), "most": limit})
        return [UsageRow(name, at, _usage(sums)) for name, at, *sums in map(tuple, rows)]

    async def servers(self, principal: Principal, since: float, limit: int) -> list[ServerRow]:
        """The servers whose direct calls would have cost most first."""
        rows = await self._database.rows(_BY_SERVER, {**_which(principal, since), "most": limit})
        return [ServerRow(name, ServerTokens(*map(int, sums))) for name, *sums in map(tuple, rows)]

    async def execution(self, principal: Principal, execution_id: ExecutionId) -> TokenUsage | None:
        """Usage of one execution; None if nothing of it is stored (any more)."""
        values = {"of_principal": principal.principal_id, "of_execution": execution_id}
        (row,) = await self._database.rows(_OF_EXECUTION, values)
        usage = _usage(row)
        return usage if usage.exchanges else None


def _which(principal: Principal, since: float) -> dict[str, Any]:
    return {"of_principal": principal.principal_id, "since": since, "until": float("inf")}


def _rows(exchange: Exchange) -> list[Mapping[str, Any]]:
    """The row of an exchange, and one for each server."""
    usage = exchange.usage
    row = {name: getattr(exchange, name) for name in _FIELDS} | {"principal": exchange.principal.principal_id}
    whole = {"server": None, "calls": usage.calls, "arguments": usage.arguments, "results": usage.results}
    tokens = [{"server": name[:_MAX_NAME_CHARACTERS], **asdict(it)} for name, it in exchange.servers.items()]
    return [row | whole, *(row | _OF_SERVER | it for it in tokens)]


def _usage(sums: Any) -> TokenUsage:
    names = (it.name for it in fields(TokenUsage))
    return TokenUsage(**{name: int(value or 0) for name, value in zip(names, sums, strict=True)})
