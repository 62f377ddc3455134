"""Inserts whose repetition changes nothing, on SQLite and PostgreSQL: each has the clause in a dialect of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

_Rows = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def insert_new(connection: Connection, table: Table, rows: _Rows) -> int:
    """Insert the rows whose key is new; returns how many that are."""
    return connection.execute(_statement(connection.dialect.name, table, replaces=False), rows).rowcount


def put(connection: Connection, table: Table, rows: _Rows) -> None:
    """Insert the rows, each in the place of the one with its key."""
    connection.execute(_statement(connection.dialect.name, table, replaces=True), rows)


@cache
def _statement(dialect: str, table: Table, *, replaces: bool) -> postgresql.Insert | sqlite.Insert:
    insert = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
    if not replaces:
        return insert.on_conflict_do_nothing()
    columns = {it.name: insert.excluded[it.name] for it in table.columns if not it.primary_key}
    return insert.on_conflict_do_update(index_elements=[*table.primary_key.columns], set_=columns)
