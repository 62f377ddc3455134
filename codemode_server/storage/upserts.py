"""INSERT … ON CONFLICT, for SQLite and PostgreSQL."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from sqlalchemy import Connection, Insert, Table, case


def upsert(
    connection: Connection,
    table: Table,
    *replaced: str,
    key: tuple[str, ...] = (),
    least: tuple[str, ...] = (),
) -> Insert:
    """A statement, built once, to execute with one or several rows as dicts. If there is a row with the same `key` (by
    default the primary key), its `replaced` columns get the new values, and those of `least` the lesser ones; without
    both it is unchanged."""
    return _upsert(connection.dialect.name, table, replaced, key, least)


@cache
def _upsert(
    dialect: str, table: Table, replaced: tuple[str, ...], key: tuple[str, ...], least: tuple[str, ...]
) -> Insert:
    insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table).inline()
    columns = [table.c[it] for it in key] or [*table.primary_key]
    new = {it: insert.excluded[it] for it in replaced}
    new |= {it: case((insert.excluded[it] < table.c[it], insert.excluded[it]), else_=table.c[it]) for it in least}
    statement: Insert = (
        insert.on_conflict_do_update(index_elements=columns, set_=new)
        if new
        else insert.on_conflict_do_nothing(index_elements=columns)
    )
    return statement
