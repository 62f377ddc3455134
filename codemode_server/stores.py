"""The durable stores of one product, and the upkeep that bounds them: opened together, closed together."""

from __future__ import annotations

from pathlib import Path

from codemode_server.settings import StateSettings
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_cipher import JournalCipher
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.storage.upkeep import Retention, Upkeep
from codemode_server.storage.vector_store import SqliteVectorCache


class Stores:
    """Journal, audit and vectors in one state folder."""

    def __init__(self, folder: Path, database: Database, settings: StateSettings) -> None:
        """Takes over the open database."""
        self.database = database
        self.ownership = Ownership(folder)
        journal_bytes = settings.journal_mb * 2**20
        self.upkeep = Upkeep(
            folder,
            self.ownership,
            audit=Retention(settings.record_days, settings.record_mb * 2**20),
            journal=Retention(settings.journal_hours / 24, journal_bytes),
        )
        self._thread = DatabaseThread(folder, on_damage=settings.on_damage)
        self.journal = SqliteJournal(
            self._thread,
            JournalCipher(folder),
            self.ownership,
            execution_bytes=journal_bytes // 4,
            on_written=self.upkeep.note_written,
        )
        self.audit = SqliteAudit(self._thread, self.upkeep.note_written)
        self.vectors = SqliteVectorCache(folder)

    def close(self) -> None:
        self.ownership.close()
        self.vectors.close()
        self._thread.close()
        self.database.close()
