"""The tables of the database. A database with another version of them is set aside when it is opened."""

from __future__ import annotations

SCHEMA = """
CREATE TABLE journal_executions (
    execution_id TEXT PRIMARY KEY, principal TEXT NOT NULL, session_id TEXT NOT NULL, is_ephemeral INTEGER NOT NULL,
    level TEXT, status TEXT NOT NULL, started_at REAL NOT NULL, ended_at REAL, code BLOB, error BLOB, calls INTEGER,
    milliseconds REAL, owner TEXT, bytes INTEGER, seed BLOB, is_dry_run INTEGER NOT NULL DEFAULT 0,
    applies TEXT, description BLOB
);
CREATE INDEX journal_by_principal ON journal_executions (principal, started_at);
CREATE INDEX journal_running ON journal_executions (owner) WHERE ended_at IS NULL;
CREATE INDEX journal_ended ON journal_executions (ended_at, bytes);
CREATE UNIQUE INDEX journal_applies ON journal_executions (principal, applies) WHERE applies IS NOT NULL;
CREATE TABLE journal_calls (
    execution_id TEXT NOT NULL REFERENCES journal_executions, seq INTEGER NOT NULL, server TEXT NOT NULL,
    tool TEXT NOT NULL, occurrence INTEGER NOT NULL, arguments BLOB, decision TEXT NOT NULL, reason TEXT NOT NULL,
    detail BLOB, started_at REAL NOT NULL, status TEXT NOT NULL, milliseconds REAL, result_bytes INTEGER, result BLOB,
    error BLOB, ended_at REAL, PRIMARY KEY (execution_id, seq)
);
CREATE TABLE cancel_requests (execution_id TEXT PRIMARY KEY, asked_at REAL NOT NULL) WITHOUT ROWID;

CREATE TABLE audit (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, principal TEXT NOT NULL, session_id TEXT NOT NULL,
    execution_id TEXT NOT NULL, at REAL NOT NULL, seq INTEGER, server TEXT, tool TEXT, decision TEXT, reason TEXT,
    status TEXT, milliseconds REAL, payload TEXT, error TEXT, level TEXT, digest TEXT NOT NULL, bytes INTEGER NOT NULL
);
CREATE INDEX audit_by_execution ON audit (principal, execution_id);
CREATE INDEX audit_by_size ON audit (number, at, bytes);
CREATE INDEX audit_executions ON audit (principal, at) WHERE kind = 'execution_started';
CREATE TABLE audit_anchor (number INTEGER NOT NULL, digest TEXT NOT NULL);
INSERT INTO audit_anchor VALUES (0, '');
CREATE TABLE audit_head (number INTEGER NOT NULL, digest TEXT NOT NULL);
INSERT INTO audit_head VALUES (0, '');
"""
