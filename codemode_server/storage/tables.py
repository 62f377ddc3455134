"""The tables of the database, for SQLite and PostgreSQL; what each column holds that its name does not say.

Times are seconds since 1970. A database with tables of another version is set aside when it is opened.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

VERSION = 31
"""Increase it with each change of the tables. SQLite stores it as `user_version`."""

ALL_ROWS = 2**31 - 1
"""The limit of a statement that has none."""

metadata = MetaData()
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Counts up by itself as a primary key, which in SQLite only an `INTEGER` does."""


def plain(text: str | None) -> str | None:
    """A text as both databases take it: without halves of surrogate pairs, and without NUL."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class _PlainText(TypeDecorator[str]):
    """So that no name which a server gives to a tool keeps a row from being written or found."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        # As `plain`, which would be one more function call for each text that is stored.
        return None if value is None else value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _text(name: str, *, is_key: bool = False, optional: bool = False) -> Column[str]:
    """A text that others may have made."""
    return Column(name, _PlainText, primary_key=is_key, nullable=optional)


def _own(name: str, *, optional: bool = False) -> Column[str]:
    """A text that only codemode-server makes."""
    return Column(name, Text, nullable=optional)


def _index_where(where: ColumnElement[bool], name: str, *columns: Column[Any], is_unique: bool = False) -> None:
    """An index of the rows for which `where` holds."""
    Index(name, *columns, unique=is_unique, sqlite_where=where, postgresql_where=where)


executions = Table(
    "executions",
    metadata,
    _text("execution_id", is_key=True),
    _text("principal"),
    _text("session_id"),
    Column("is_ephemeral", Boolean, nullable=False),
    _own("level", optional=True),
    _own("status"),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("milliseconds", Double),
    Column("calls", Integer),
    Column("is_dry_run", Boolean, nullable=False),
    _text("applies", optional=True),
    # The process that runs it: `storage.ownership`.
    _own("owner", optional=True),
    # The session whose sources its program may pass on by /workspace. It is set while the program runs, and stays after
    # an interruption until a process has looked for changed files. A row that has it is not deleted.
    _own("holder", optional=True),
    Column("cancel_asked_at", Double),
    # As `state.payloads` allows; these stay as long as the row, for `state.record_days`.
    _text("recorded_code", optional=True),
    _text("recorded_description", optional=True),
    _text("error", optional=True),
    Column("record_bytes", BigInteger),
    # Encrypted; these are removed after `state.journal_hours`.
    Column("code", LargeBinary),
    Column("description", LargeBinary),
    Column("answer", LargeBinary),
    Column("seed", LargeBinary),
    Column("value_bytes", BigInteger),
)
Index("executions_by_time", executions.c.principal, executions.c.started_at)
_index_where(executions.c.ended_at.is_(None), "executions_running", executions.c.owner)
_index_where(executions.c.holder.is_not(None), "executions_with_holder", executions.c.principal)
Index("executions_ended", executions.c.ended_at, executions.c.value_bytes)
_index_where(
    executions.c.applies.is_not(None),
    "executions_applies",
    executions.c.principal,
    executions.c.applies,
    is_unique=True,
)

calls = Table(
    "calls",
    metadata,
    _text("execution_id", is_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    _text("server"),
    _text("tool"),
    Column("occurrence", Integer, nullable=False),
    _own("decision"),
    _text("reason"),
    _own("status"),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("milliseconds", Double),
    Column("result_bytes", BigInteger),
    # As `state.payloads` allows; these stay as long as the row.
    _text("recorded_arguments", optional=True),
    _text("recorded_result", optional=True),
    _text("recorded_error", optional=True),
    # Encrypted; these are removed after `state.journal_hours`.
    Column("arguments", LargeBinary),
    Column("detail", LargeBinary),
    Column("result", LargeBinary),
    Column("error", LargeBinary),
)

counted_calls = Table(
    "counted_calls",
    metadata,
    # A digest of the principal and the limit.
    Column("limit_key", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("counts_until", Double, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    # The process that wrote it, and the digests of its event before and of this one.
    _own("chain"),
    _own("previous"),
    _own("digest"),
    _own("kind"),
    _text("principal"),
    _text("session_id"),
    _text("execution_id"),
    Column("at", Double, nullable=False),
    Column("seq", Integer),
    _text("server", optional=True),
    _text("tool", optional=True),
    _own("decision", optional=True),
    _text("reason", optional=True),
    _own("status", optional=True),
    _text("payload", optional=True),
    Column("bytes", Integer, nullable=False),
)
Index("events_by_execution", events.c.execution_id)
Index("events_by_chain", events.c.chain, events.c.number)
Index("events_by_time", events.c.at, events.c.bytes)

approvals = Table(
    "approvals",
    metadata,
    _text("approval_id", is_key=True),
    _text("execution_id"),
    Column("key_hint", BigInteger, nullable=False),
    _text("principal"),
    _text("session_id"),
    Column("asked_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("question", LargeBinary, nullable=False),
    _own("scope", optional=True),
    Column("answer", LargeBinary),
)
Index("approvals_by_execution", approvals.c.execution_id, approvals.c.key_hint)
_index_where(approvals.c.answer.is_(None), "approvals_open", approvals.c.principal, approvals.c.asked_at)
_index_where(approvals.c.scope.is_not(None), "approvals_remembered", approvals.c.principal, approvals.c.session_id)

tool_definitions = Table(
    "tool_definitions",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    _text("principal"),
    _text("server"),
    _text("tool"),
    _text("digest"),
    _text("former"),
    Column("seen_at", Double, nullable=False),
    Column("accepted_at", Double),
    _text("description_mark"),
    _text("schema_mark"),
    Column("definition", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
)
Index(
    "tool_definitions_key", *(tool_definitions.c[it] for it in ("principal", "server", "tool", "digest")), unique=True
)
Index("tool_definitions_size", *(tool_definitions.c[it] for it in ("principal", "server", "size")))

privacy_tokens = Table(
    "privacy_tokens",
    metadata,
    _text("principal", is_key=True),
    _text("label", is_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _text("kind"),
    Column("lookup", LargeBinary),
    Column("value", LargeBinary),
    Column("made_at", Double, nullable=False),
    Column("used_at", Double, nullable=False),
    Column("change", BigInteger, nullable=False),
    _text("server"),
)
_index_where(
    privacy_tokens.c.lookup.is_not(None),
    "privacy_tokens_lookup",
    privacy_tokens.c.principal,
    privacy_tokens.c.lookup,
    is_unique=True,
)
Index("privacy_tokens_change", privacy_tokens.c.principal, privacy_tokens.c.change, unique=True)
_index_where(
    privacy_tokens.c.lookup.is_not(None),
    "privacy_tokens_room",
    privacy_tokens.c.principal,
    privacy_tokens.c.server,
    privacy_tokens.c.lookup,
)

session_sources = Table(
    "session_sources",
    metadata,
    _text("principal", is_key=True),
    _text("holder", is_key=True),
    _text("server", is_key=True),
    _text("tool", is_key=True),
    _text("title"),
    # Part of the key: a tool whose labels change has all that it had when it was read.
    _text("labels", is_key=True),
    Column("at", Double, nullable=False),
)

exchanges = Table(
    "exchanges",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    # One row for the exchange, without a server, and one for each server that its program called.
    _text("server", optional=True),
    _text("principal"),
    Column("at", Double, nullable=False),
    _text("tool"),
    _text("execution_id", optional=True),
    *(
        Column(it, BigInteger, nullable=False)
        for it in ("sent", "returned", "own_definitions", "all_definitions", "turns", "calls", "arguments", "results")
    ),
)
Index("exchanges_by_time", exchanges.c.principal, exchanges.c.at)
Index("exchanges_by_execution", exchanges.c.principal, exchanges.c.execution_id)

cache = Table(
    "cache",
    metadata,
    _text("kind", is_key=True),
    _text("key", is_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("used_at", Double, nullable=False),
)
Index("cache_by_time", cache.c.kind, cache.c.used_at)

processes = Table(
    "processes",
    metadata,
    _text("name", is_key=True),
    Column("seen_at", Double, nullable=False),
)
