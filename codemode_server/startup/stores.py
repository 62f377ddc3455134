"""The durable stores of one product, and the upkeep that bounds them: opened together, closed together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codemode_server.config.settings import StateSettings
from codemode_server.domain.privacy_tokens import TokenLimits
from codemode_server.features.approvals.sqlite_approvals import SqliteApprovals, SqliteCancelRequests
from codemode_server.features.data_flow.sqlite_sources import SqliteSources
from codemode_server.features.privacy.sqlite_tokens import SqliteTokens, TokenCipher
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import Ownership
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.storage.upkeep import Retention, Upkeep
from codemode_server.storage.vector_store import SqliteVectorCache


class Stores:
    """Journal, approvals, definitions of tools, audit, counts of tokens and vectors in one state folder."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        thread: DatabaseThread,
        settings: StateSettings,
        token_limits: Callable[[], TokenLimits] = TokenLimits,
    ) -> None:
        """Takes over the open database and its thread. `token_limits`: see `SqliteTokens`."""
        self.database = database
        self.ownership = Ownership(folder)
        self.upkeep = Upkeep(folder, self.ownership, *_retention(settings))
        self.thread = thread
        cipher = JournalCipher(folder)
        self.journal = SqliteJournal(
            self.thread,
            cipher,
            self.ownership,
            execution_bytes=_execution_bytes(settings),
            on_written=self.upkeep.note_written,
        )
        self.approvals = SqliteApprovals(self.thread, cipher)
        self.cancel_requests = SqliteCancelRequests(database, thread)
        self.sources = SqliteSources(database, thread, self.ownership)
        self.tokens = SqliteTokens(self.thread, TokenCipher(folder), token_limits)
        self.audit = SqliteAudit(self.thread, self.upkeep.note_written)
        self.vectors = SqliteVectorCache(folder)

    def follow(self, settings: StateSettings) -> None:
        """Put the retention of edited settings in force."""
        self.journal.execution_bytes = _execution_bytes(settings)
        self.upkeep.set_retention(*_retention(settings))

    def close(self) -> None:
        self.ownership.close()
        self.vectors.close()
        self.thread.close()
        self.database.close()


def _retention(settings: StateSettings) -> tuple[Retention, Retention]:
    audit = Retention(settings.record_days, settings.record_mb * 2**20)
    return audit, Retention(settings.journal_hours / 24, settings.journal_mb * 2**20)


def _execution_bytes(settings: StateSettings) -> int:
    return settings.journal_mb * 2**20 // 4
