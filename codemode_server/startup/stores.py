"""The durable stores of one product, and the upkeep that bounds them: opened together, closed together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import Settings, StateSettings
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.features import provided
from codemode_server.features.changed_tools.definition_store import DefinitionStore
from codemode_server.features.data_flow.source_store import SourceStore
from codemode_server.startup.upkeep import Retention, Upkeep
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.audit import Audit
from codemode_server.storage.cache import LISTINGS, STATES, TYPES, USES, VECTORS, Cache
from codemode_server.storage.database import Database, DatabasePlace, PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import settle_interrupted
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.ownership import ownership
from codemode_server.storage.sealed_texts import SealedTexts
from codemode_server.storage.server_states import ServerStates
from codemode_server.storage.token_cipher import TokenCipher
from codemode_server.support.private_files import data_folder
from codemode_server.upstreams.listing_store import ListingStore

logger = logging.getLogger(__name__)


def state_folder(settings: Settings) -> Path:
    """Where the workspaces are, the keys, and the database unless it is on PostgreSQL."""
    return Path(settings.state.dir) if settings.state.dir else data_folder()


def database_place(settings: Settings) -> DatabasePlace:
    state = settings.state
    return PostgresAddress(state.database, state.database_password) if state.database else state_folder(settings)


class Stores:
    """What is in one state folder, and what reads and writes it."""

    def __init__(self, config: LiveConfig) -> None:
        """Opens the database. Blocks. Raises `JournalUnavailable`."""
        settings = config.settings.state
        folder, place = state_folder(config.settings), database_place(config.settings)
        self.database = Database(place)
        self.thread = DatabaseThread(place)
        self.ownership = ownership(self.database, folder, is_shared=bool(settings.database))
        self.ownership.renew()
        self.upkeep = Upkeep(place, self.ownership, *_retention(settings), deletions=provided("delete_old_rows"))
        cipher = JournalCipher(folder, settings.key)
        self.audit = Audit(self.thread, self.upkeep.note_written)
        self.journal = Journal(
            self.thread,
            cipher,
            self.audit,
            self.ownership,
            execution_bytes=_execution_bytes(settings),
            on_written=self.upkeep.note_written,
        )
        self.approvals = ApprovalStore(self.thread, cipher)
        self.sources = SourceStore(self.database, self.thread)
        self.token_cipher = TokenCipher(folder, settings.key)
        cached = partial(Cache, self.database, self.thread)
        self.vectors = cached(VECTORS)
        self.observed_types = cached(TYPES)
        self.uses = cached(USES)
        self.server_states = ServerStates(cached(STATES), self.ownership)
        texts = SealedTexts(cipher)
        self.listings = ListingStore(cached(LISTINGS), texts)
        self.definitions = DefinitionStore(self.database, self.thread, texts)

    async def keep_lease(self) -> None:
        """Where several replicas share the database, renew the lease of this one, and end executions of killed ones.
        Until cancelled."""
        if self.ownership.renewal_seconds is None:
            return
        renewal = _Step(self.ownership.renew, "the lease can't be renewed, so programs can't call tools")
        settling = _Step(
            lambda: settle_interrupted(self.database, self.ownership, time.time()),
            "executions of a codemode-server that was killed can't be ended",
        )
        async with anyio.create_task_group() as tasks:
            while True:
                await renewal.do()
                # Not awaited: it may wait for a lock of a replica that was stopped in the middle of a transaction.
                tasks.start_soon(settling.do)
                await anyio.sleep(self.ownership.renewal_seconds)

    def follow(self, settings: StateSettings) -> None:
        """Put the retention of edited settings in force."""
        self.journal.execution_bytes = _execution_bytes(settings)
        self.upkeep.set_retention(*_retention(settings))

    def close(self) -> None:
        # First what waits to be written: without an owner, others would take the executions for interrupted.
        self.thread.close()
        self.ownership.close()
        self.database.close()


class _Step:
    """Something that is done repeatedly in a thread; a repetition is skipped while the last one is still running."""

    def __init__(self, step: Callable[[], None], problem: str) -> None:
        self._step, self._problem = step, problem
        self._limiter = anyio.CapacityLimiter(1)  # its own, so that it never waits until another thread is free
        self._is_failing = False

    async def do(self) -> None:
        if self._limiter.borrowed_tokens:
            return
        try:
            await anyio.to_thread.run_sync(self._step, limiter=self._limiter)
            self._is_failing = False
        except JournalUnavailable as error:
            if not self._is_failing:
                logger.warning("%s: %s", self._problem, error)
            self._is_failing = True


def _retention(settings: StateSettings) -> tuple[Retention, Retention]:
    audit = Retention(settings.record_days, settings.record_mb * 2**20)
    return audit, Retention(settings.journal_hours / 24, settings.journal_mb * 2**20)


def _execution_bytes(settings: StateSettings) -> int:
    return settings.journal_mb * 2**20 // 4
