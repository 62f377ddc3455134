"""SQLite behind the contracts of the stages above: one file, WAL, append-only where it is a record."""
