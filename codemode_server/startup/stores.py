"""The durable stores of one product, and the upkeep that bounds them: opened together, closed together."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings, StateSettings
from codemode_server.features import provided
from codemode_server.features.changed_tools.sqlite_definitions import SqliteDefinitions
from codemode_server.features.data_flow.sqlite_sources import SqliteSources
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import Ownership
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.listing_store import ListingStore
from codemode_server.storage.server_texts import ServerTexts, TokenCipher
from codemode_server.storage.sqlite_approvals import SqliteApprovals
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.storage.tool_tables import SqliteObservedTypeStore, SqliteUsageStore
from codemode_server.storage.vector_store import SqliteVectorCache
from codemode_server.support.private_files import data_folder


def state_folder(settings: Settings) -> Path:
    """Where the database and the workspaces are."""
    return Path(settings.state.dir) if settings.state.dir else data_folder()


class Stores:
    """What is in one state folder, and what reads and writes it."""

    def __init__(self, config: LiveConfig) -> None:
        """Opens the database. Blocks. Raises `JournalUnavailable`."""
        settings = config.settings.state
        self.database = Database(state_folder(config.settings))
        folder = self.database.path.parent
        self.thread = DatabaseThread(folder)
        self.ownership = Ownership(folder)
        self.upkeep = Upkeep(folder, self.ownership, *_retention(settings), deletions=provided("delete_old_rows"))
        cipher = JournalCipher(folder, settings.key)
        self.journal = SqliteJournal(
            self.thread,
            cipher,
            self.ownership,
            execution_bytes=_execution_bytes(settings),
            on_written=self.upkeep.note_written,
        )
        self.approvals = SqliteApprovals(self.thread, cipher)
        self.sources = SqliteSources(self.database, self.thread, self.ownership)
        self.token_cipher = TokenCipher(folder, settings.key)
        self.audit = SqliteAudit(self.thread, self.upkeep.note_written)
        self.vectors = SqliteVectorCache(folder)
        texts = ServerTexts(self.token_cipher, *(partial(it, config) for it in provided("is_protected")))
        self.listings = ListingStore(self.database, self.thread, texts)
        self.definitions = SqliteDefinitions(self.database, self.thread, texts)
        self.observed_types = SqliteObservedTypeStore(self.database, self.thread)
        self.uses = SqliteUsageStore(self.database, self.thread)

    def delete_plain(self) -> None:
        """Delete texts of servers that are protected now and were stored without encryption."""
        self.definitions.delete_plain()
        self.listings.delete_plain()

    def follow(self, settings: StateSettings) -> None:
        """Put the retention of edited settings in force."""
        self.journal.execution_bytes = _execution_bytes(settings)
        self.upkeep.set_retention(*_retention(settings))

    def close(self) -> None:
        self.ownership.close()
        self.thread.close()
        self.database.close()


def _retention(settings: StateSettings) -> tuple[Retention, Retention]:
    audit = Retention(settings.record_days, settings.record_mb * 2**20)
    return audit, Retention(settings.journal_hours / 24, settings.journal_mb * 2**20)


def _execution_bytes(settings: StateSettings) -> int:
    return settings.journal_mb * 2**20 // 4
