"""Implements the stores of other stages on one SQLite file in WAL mode; the audit is append-only."""
