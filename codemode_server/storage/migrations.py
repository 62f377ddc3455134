"""The schema of the database, and the steps that bring an older one up to date."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from codemode_server.domain.executions import INTERRUPTED, ExecutionStatus
from codemode_server.domain.ids import ExecutionId, PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditEvent, AuditEventKind
from codemode_server.storage.audit_chain import insert_after, last_of, make_head, values_of
from codemode_server.storage.unusable import newer

TABLES = {"listings", "shapes", "vectors", "journal_executions", "journal_calls", "audit", "audit_anchor"}
TABLES |= {"habits", "lone_habits", "approvals", "flow_sources", "flow_programs", "tool_definitions", "cancel_requests"}
TABLES |= {"savings", "savings_by_server", "audit_head"}
TABLES |= {"privacy_tokens"}
"""Tables of a sound database."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Do the steps that the database still lacks, each in a transaction.

    Raises:
        JournalUnavailable: a newer version made it.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise newer(path, version)
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        # Another product may have migrated meanwhile; the lock shows its version, so that no step is done twice.
        connection.execute("BEGIN IMMEDIATE")
        (current,) = connection.execute("PRAGMA user_version").fetchone()
        if current < number:
            if isinstance(step, str):
                for statement in filter(str.strip, step.split(";")):
                    connection.execute(statement)
            else:
                step(connection)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")


def _move_old_executions(connection: sqlite3.Connection) -> None:
    """Move the records of versions without a journal to the audit, which has the same content and retention."""
    executions = connection.execute(
        "SELECT execution_id, session_id, customer, level, code, started_at, settled_at, status, error, milliseconds"
        " FROM executions WHERE execution_id NOT IN (SELECT execution_id FROM audit) ORDER BY started_at"
    )
    for name, session_id, customer, level, code, started_at, settled_at, status, error, milliseconds in executions:
        event = AuditEvent(
            AuditEventKind.EXECUTION_STARTED,
            Principal(PrincipalId(customer)),
            session_id,
            ExecutionId(name),
            started_at,
        )
        _append_old(connection, replace(event, payload=code, level=level))
        _move_old_calls(connection, event)
        if settled_at is None:
            settled_at, status, error = time.time(), ExecutionStatus.INTERRUPTED, INTERRUPTED
        ended = replace(event, kind=AuditEventKind.EXECUTION_ENDED, at=settled_at, milliseconds=milliseconds)
        _append_old(connection, replace(ended, status=status, error=error))


def _append_old(connection: sqlite3.Connection, event: AuditEvent) -> None:
    """Append to an audit that has no head yet."""
    insert_after(connection, last_of(connection), values_of(event))


def _move_old_calls(connection: sqlite3.Connection, execution: AuditEvent) -> None:
    calls = connection.execute(
        "SELECT seq, server, tool, verdict, reason, started_at, arguments, settled_at, status, milliseconds, result,"
        " error FROM calls WHERE execution_id = ? ORDER BY seq",
        (execution.execution_id,),
    )
    for seq, server, tool, verdict, reason, started_at, arguments, settled_at, *ending in calls:
        call = replace(execution, seq=seq, server=server, tool=tool, decision=verdict, reason=reason)
        _append_old(connection, replace(call, kind=AuditEventKind.CALL_DECIDED, at=started_at, payload=arguments))
        if settled_at is not None:
            status, milliseconds, result, error = ending
            ended = replace(call, kind=AuditEventKind.CALL_ENDED, at=settled_at, status=status, payload=result)
            _append_old(connection, replace(ended, milliseconds=milliseconds, error=error))


MIGRATIONS: tuple[str | Callable[[sqlite3.Connection], None], ...] = (
    """
    CREATE TABLE executions (
        execution_id TEXT PRIMARY KEY,
        session_id   TEXT NOT NULL,
        customer     TEXT NOT NULL,
        level        TEXT NOT NULL,
        code         TEXT,
        started_at   REAL NOT NULL,
        settled_at   REAL,
        status       TEXT NOT NULL,
        error        TEXT,
        calls        INTEGER,
        milliseconds REAL
    );
    CREATE INDEX executions_by_time ON executions (started_at);
    CREATE TABLE calls (
        execution_id TEXT NOT NULL REFERENCES executions,
        seq          INTEGER NOT NULL,
        server       TEXT NOT NULL,
        tool         TEXT NOT NULL,
        verdict      TEXT NOT NULL,
        reason       TEXT NOT NULL,
        arguments    TEXT,
        started_at   REAL NOT NULL,
        settled_at   REAL,
        status       TEXT NOT NULL,
        milliseconds REAL,
        result_bytes INTEGER,
        result       TEXT,
        error        TEXT,
        PRIMARY KEY (execution_id, seq)
    ) WITHOUT ROWID;
    CREATE TABLE listings (
        upstream    TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        listing     TEXT NOT NULL,
        stored_at   REAL NOT NULL,
        PRIMARY KEY (upstream, fingerprint)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE shapes (
        upstream  TEXT NOT NULL,
        tool      TEXT NOT NULL,
        schemas   TEXT NOT NULL,
        observed  TEXT NOT NULL,
        stored_at REAL NOT NULL,
        PRIMARY KEY (upstream, tool, schemas)
    );
    """,
    """
    CREATE TABLE vectors (
        model   TEXT NOT NULL,
        key     BLOB NOT NULL,
        vector  BLOB NOT NULL,
        used_at REAL NOT NULL,
        PRIMARY KEY (model, key)
    );
    CREATE INDEX vectors_by_time ON vectors (used_at);
    """,
    """
    CREATE TABLE habits (
        server  TEXT NOT NULL,
        tool    TEXT NOT NULL,
        uses    REAL NOT NULL,
        used_at REAL NOT NULL,
        PRIMARY KEY (server, tool)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE executions ADD COLUMN owner TEXT;
    ALTER TABLE executions ADD COLUMN bytes INTEGER;
    CREATE INDEX executions_running ON executions (owner) WHERE status = 'running';
    CREATE INDEX executions_settled ON executions (settled_at, bytes);
    CREATE INDEX executions_not_measured ON executions (settled_at) WHERE bytes IS NULL;
    """,
    """
    CREATE TABLE journal_executions (
        execution_id TEXT PRIMARY KEY,
        principal    TEXT NOT NULL,
        session_id   TEXT NOT NULL,
        is_ephemeral INTEGER NOT NULL,
        level        TEXT,
        status       TEXT NOT NULL,
        started_at   REAL NOT NULL,
        ended_at     REAL,
        code         BLOB,
        error        BLOB,
        calls        INTEGER,
        milliseconds REAL,
        owner        TEXT,
        bytes        INTEGER
    );
    CREATE INDEX journal_by_principal ON journal_executions (principal, started_at);
    CREATE INDEX journal_running ON journal_executions (owner) WHERE ended_at IS NULL;
    CREATE INDEX journal_ended ON journal_executions (ended_at, bytes);
    CREATE INDEX journal_not_measured ON journal_executions (ended_at) WHERE bytes IS NULL;
    CREATE TABLE journal_calls (
        execution_id TEXT NOT NULL REFERENCES journal_executions,
        seq          INTEGER NOT NULL,
        server       TEXT NOT NULL,
        tool         TEXT NOT NULL,
        occurrence   INTEGER NOT NULL,
        arguments    BLOB,
        decision     TEXT NOT NULL,
        reason       TEXT NOT NULL,
        detail       BLOB,
        started_at   REAL NOT NULL,
        status       TEXT NOT NULL,
        milliseconds REAL,
        result_bytes INTEGER,
        result       BLOB,
        error        BLOB,
        PRIMARY KEY (execution_id, seq)
    );
    CREATE TABLE audit (
        number       INTEGER PRIMARY KEY,
        kind         TEXT NOT NULL,
        principal    TEXT NOT NULL,
        session_id   TEXT NOT NULL,
        execution_id TEXT NOT NULL,
        at           REAL NOT NULL,
        seq          INTEGER,
        server       TEXT,
        tool         TEXT,
        decision     TEXT,
        reason       TEXT,
        status       TEXT,
        milliseconds REAL,
        payload      TEXT,
        error        TEXT,
        digest       TEXT NOT NULL,
        bytes        INTEGER NOT NULL
    );
    CREATE INDEX audit_by_execution ON audit (principal, execution_id);
    CREATE INDEX audit_by_size ON audit (number, at, bytes);
    CREATE TABLE audit_anchor (
        number INTEGER NOT NULL,
        digest TEXT NOT NULL
    );
    INSERT INTO audit_anchor VALUES (0, '');
    """,
    """
    ALTER TABLE audit ADD COLUMN level TEXT;
    CREATE INDEX audit_executions ON audit (principal, at) WHERE kind = 'execution_started';
    """,
    _move_old_executions,
    """
    DROP TABLE calls;
    DROP TABLE executions;
    """,
    """
    CREATE TABLE lone_habits (
        server  TEXT NOT NULL,
        tool    TEXT NOT NULL,
        uses    REAL NOT NULL,
        used_at REAL NOT NULL,
        PRIMARY KEY (server, tool)
    ) WITHOUT ROWID;
    """,
    """
    ALTER TABLE journal_executions ADD COLUMN seed BLOB;
    ALTER TABLE journal_executions ADD COLUMN clock BLOB;
    ALTER TABLE journal_calls ADD COLUMN clock BLOB;
    """,
    """
    CREATE TABLE approvals (
        approval_id  TEXT PRIMARY KEY,
        execution_id TEXT NOT NULL,
        key_hint     INTEGER NOT NULL,
        principal    TEXT NOT NULL,
        session_id   TEXT NOT NULL,
        asked_at     REAL NOT NULL,
        expires_at   REAL NOT NULL,
        question     BLOB NOT NULL,
        scope        TEXT,
        answer       BLOB
    );
    CREATE INDEX approvals_by_execution ON approvals (execution_id, key_hint);
    CREATE INDEX approvals_open ON approvals (principal, asked_at) WHERE answer IS NULL;
    CREATE INDEX approvals_remembered ON approvals (principal, session_id) WHERE scope IS NOT NULL;
    """,
    """
    CREATE TABLE flow_sources (
        principal TEXT NOT NULL,
        holder    TEXT NOT NULL,
        server    TEXT NOT NULL,
        tool      TEXT NOT NULL,
        title     TEXT NOT NULL,
        labels    TEXT NOT NULL,
        at        REAL NOT NULL,
        PRIMARY KEY (principal, holder, server, tool)
    ) WITHOUT ROWID;
    CREATE TABLE flow_programs (
        execution_id TEXT PRIMARY KEY,
        principal    TEXT NOT NULL,
        holder       TEXT NOT NULL,
        began_at     REAL NOT NULL,
        run          TEXT NOT NULL
    ) WITHOUT ROWID;
    """,
    "ALTER TABLE journal_calls ADD COLUMN ended_at REAL",
    """
    CREATE TABLE tool_definitions (
        principal        TEXT NOT NULL,
        server           TEXT NOT NULL,
        tool             TEXT NOT NULL,
        digest           TEXT NOT NULL,
        former           TEXT NOT NULL,
        seen_at          REAL NOT NULL,
        accepted_at      REAL,
        description_mark TEXT NOT NULL,
        schema_mark      TEXT NOT NULL,
        definition       BLOB NOT NULL,
        size             INTEGER NOT NULL,
        PRIMARY KEY (principal, server, tool, digest)
    );
    CREATE INDEX tool_definitions_size ON tool_definitions (principal, server, size);
    """,
    """
    ALTER TABLE journal_executions ADD COLUMN is_dry_run INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE journal_executions ADD COLUMN applies TEXT;
    CREATE UNIQUE INDEX journal_applies ON journal_executions (principal, applies) WHERE applies IS NOT NULL;
    """,
    "ALTER TABLE journal_executions ADD COLUMN description BLOB",
    """
    CREATE TABLE cancel_requests (
        execution_id TEXT PRIMARY KEY,
        asked_at     REAL NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE savings (
        number          INTEGER PRIMARY KEY,
        principal       TEXT NOT NULL,
        at              REAL NOT NULL,
        tool            TEXT NOT NULL,
        execution_id    TEXT,
        sent            INTEGER NOT NULL,
        returned        INTEGER NOT NULL,
        own_definitions INTEGER NOT NULL,
        all_definitions INTEGER NOT NULL,
        turns           INTEGER NOT NULL,
        calls           INTEGER NOT NULL,
        arguments       INTEGER NOT NULL,
        results         INTEGER NOT NULL
    );
    CREATE INDEX savings_by_time ON savings (principal, at);
    CREATE INDEX savings_by_execution ON savings (execution_id) WHERE execution_id IS NOT NULL;
    CREATE TABLE savings_by_server (
        number    INTEGER NOT NULL,
        server    TEXT NOT NULL,
        calls     INTEGER NOT NULL,
        arguments INTEGER NOT NULL,
        results   INTEGER NOT NULL,
        PRIMARY KEY (number, server)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE privacy_tokens (
        principal TEXT NOT NULL,
        label     TEXT NOT NULL,
        number    INTEGER NOT NULL,
        kind      TEXT NOT NULL,
        lookup    BLOB,
        value     BLOB,
        made_at   REAL NOT NULL,
        used_at   REAL NOT NULL,
        change    INTEGER NOT NULL,
        PRIMARY KEY (principal, label, number)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX privacy_tokens_lookup ON privacy_tokens (principal, lookup) WHERE lookup IS NOT NULL;
    CREATE INDEX privacy_tokens_change ON privacy_tokens (principal, change);
    """,
    make_head,
    """
    ALTER TABLE privacy_tokens ADD COLUMN server TEXT NOT NULL DEFAULT '';
    CREATE INDEX privacy_tokens_server ON privacy_tokens (principal, server, lookup) WHERE lookup IS NOT NULL;
    """,
    """
    ALTER TABLE privacy_tokens ADD COLUMN characters INTEGER NOT NULL DEFAULT 0;
    UPDATE privacy_tokens SET characters = max(0, length(value) - 44) WHERE value IS NOT NULL;
    DROP INDEX privacy_tokens_server;
    CREATE INDEX privacy_tokens_room ON privacy_tokens (principal, server, lookup, characters)
        WHERE lookup IS NOT NULL;
    """,
)
