"""Wiring: builds every object of a product once, starts and stops them; holds no rule of its own."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any

import anyio
import anyio.to_thread

from codemode_server import __version__, logs, temporary
from codemode_server.allocator import return_large_blocks
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import prepare
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig
from codemode_server.config.places import ConfigFile
from codemode_server.config.watching import changes
from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.domain.principals import Session
from codemode_server.domain.skills import Skill
from codemode_server.executions.artifacts import ArtifactStore
from codemode_server.executions.attachments import Showing
from codemode_server.executions.host_api import ProgramHostApi
from codemode_server.executions.preflight.preflight import Preflight
from codemode_server.executions.service import Execution, Executor
from codemode_server.executions.skills import Skills
from codemode_server.executions.workspace import Workspace
from codemode_server.first_listing import LastRun, learned_types, reasons, state_folder, stored_uses, upstream_pool
from codemode_server.front import http_token
from codemode_server.front.answers import Answers
from codemode_server.front.server import FrontServer
from codemode_server.gateway.gateway import Gateway
from codemode_server.off_loop import switch_threads_often
from codemode_server.redaction import Redactor
from codemode_server.sandbox.backend_selection import Choice, Sandbox, choose
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.encoding.build_encoders import vector_levels
from codemode_server.search.ranker_stack import RankerStack
from codemode_server.search.usage_stats import UsageStats
from codemode_server.storage.ledger_store import LedgerStore
from codemode_server.storage.ownership import Ownership
from codemode_server.storage.sqlite_usage import SqliteUsageStore
from codemode_server.storage.upkeep import Retention, Upkeep
from codemode_server.storage.vector_store import SqliteVectorCache
from codemode_server.telemetry.tracing import Tracing
from codemode_server.text import escaped

logger = logging.getLogger(__name__)

_AFTER_HANDSHAKE_SECONDS = 0.05
"""Between the first answer to the host and our own start of processes, so that the answer is out first."""
_WATCH_SECONDS = 1.0
_INDEX_AFTER_SECONDS = 0.2
_UPKEEP_AFTER_SECONDS = 0.5
_AT_START = ("sandbox", "tracing", "search", "results", "state")
"""Sections that are read once; the others are taken over from an edited file at once."""
_LARGE_LISTING = 1_000
"""Tools; to build the folders of more takes the event loop too long."""
_FIRST_LISTING_SECONDS = 10.0
"""How long after the handshake a model that looks for tools waits for upstreams that were never listed before."""


class App:
    """One product: everything between a host and its upstreams. Made by `open`."""

    def __init__(self, loaded: LoadedSettings, last_run: LastRun | None = None) -> None:
        """Reads the database, so this is called in a thread; `last_run` is what was read of it already.

        Raises:
            LedgerUnavailable: the database can't be used.
            NotPrivate: another user could have made a folder of the state.
        """
        last_run = last_run or LastRun.read(loaded)
        self.loaded = loaded
        settings = loaded.settings
        self.state_folder = state_folder(settings)
        self._http_tokens = http_token.existing()
        self.config = LiveConfig(settings, self._redactor(loaded), loaded.messages_for_model)
        self.database = last_run.database
        self._ownership = Ownership(self.state_folder)
        retention = Retention(settings.state.record_days, settings.state.record_mb * 2**20)
        self._is_ending = threading.Event()
        """For what works in threads, which the end of the process waits for."""
        self._upkeep = Upkeep(self.state_folder, self._ownership, retention)
        ledger = LedgerStore(self.database, self._ownership, self._upkeep.note_written)
        self.pool = upstream_pool(loaded, last_run.listings, self.config, self._listings_changed)
        self._catalog = last_run.catalog
        self._catalog_is_old = True
        self._catalog_changed = anyio.Event()
        self._preparing = anyio.Lock()
        self._vectors = SqliteVectorCache(self.state_folder)
        self.levels = RankerStack(vector_levels(settings.search, self._vectors), lambda index: self.habits.prior(index))
        self._indexing = anyio.Lock()
        self._indexed: tuple[Catalog, list[Skill]] | None = None
        self.sandbox = Sandbox(self._choose_sandbox)
        self.activity = ""
        """Current sandbox start-up step; empty when ready."""
        self._workspace = workspace = Workspace(self.state_folder, settings.state.customer)
        try:
            workspace.make()  # now, since a folder that can't be used ends the product
        except OSError as error:
            shown = escaped(str(workspace.path))
            raise CodemodeError(f"the workspace {shown} can't be used: {error.strerror or error}") from error
        self._skills = skills = Skills(loaded.base_dir / settings.state.skills)
        self.learning = learned_types(self.config, self.database)
        self.habits = UsageStats(SqliteUsageStore(self.database), is_on=settings.search.habits)
        self.gateway = Gateway(
            catalog=self.catalog,
            upstreams=self.pool,
            ledger=ledger,
            config=self.config,
            learning=self.learning,
        )
        self.kept = ArtifactStore(
            self.state_folder / "kept",
            session_bytes=lambda: self.config.settings.limits.kept_mb * 2**20,
            all_bytes=lambda: settings.state.kept_mb * 2**20,
        )
        self._preflight = Preflight(
            catalog=self.catalog,
            listed=self.listed,
            config=self.config,
            why_no_skill=skills.why_missing,
        )
        self.executor = Executor(
            traced=lambda: self._traced.wait(),
            check=self._preflight.check,
            sandbox=self.sandbox,
            door=lambda execution: self._door(execution, skills),
            kept=self.kept,
            habits=self.habits,
            ledger=ledger,
            workspace=workspace,
            config=self.config,
        )
        self._connected = anyio.Event()
        self._traced = anyio.Event()
        self._patience_until = math.inf
        self.answers = Answers(
            listed=self.listed,
            catalog=self.catalog,
            levels=self.indexed,
            workspace=workspace,
            skills=skills,
            executor=self.executor,
            habits=self.habits,
            kept=self.kept,
            config=self.config,
            activity=lambda: self.activity,
            uses=lambda: stored_uses(settings, self.database),
        )
        self.tracing = Tracing(self.config)
        self.habits.load()
        self.learning.load()
        self._catalog = self._newest_catalog()
        self._catalog_is_old = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, loaded: LoadedSettings, *, last_run: LastRun | None = None, watch: bool = False
    ) -> AsyncIterator[App]:
        """A running product. It connects and starts processes once the host has had its first answer (or `connect` is
        called), and ends all of them on leaving."""
        return_large_blocks()
        switch_threads_often()
        app = await anyio.to_thread.run_sync(cls, loaded, last_run)
        app._patience_until = anyio.current_time() + _FIRST_LISTING_SECONDS
        try:
            async with (
                app.sandbox.open(),
                app.pool.open(),
                app._preflight.open(),
                app.executor.open(),
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(app._after_handshake)
                tasks.start_soon(app._keep_indexed)
                tasks.start_soon(app.learning.keep)
                tasks.start_soon(app._keep_bounded)
                if watch and loaded.place is not None:
                    tasks.start_soon(app._watch, loaded.place)
                try:
                    yield app
                finally:
                    app._is_ending.set()
                    app._upkeep.end()
                    tasks.cancel_scope.cancel()
        finally:
            app.learning.save()
            app._ownership.close()
            app.kept.close()
            temporary.close()
            app.tracing.shutdown()
            app._vectors.close()
            app.database.close()

    async def listed(self) -> None:
        """Wait, a bounded time after the handshake, for upstreams of which nothing is known from last time."""
        if self.pool.is_expecting_tools and self._patience_until > anyio.current_time():
            self._connected.set()
            await self.pool.wait_settled(self._patience_until - anyio.current_time())
            await self._prepare_catalog()

    @cached_property
    def front(self) -> FrontServer:
        """A server of its own for this product, for clients in the same process."""
        names = self.answers.servers().names
        return FrontServer(self.answers, version=__version__, on_connected=self.connect, server_names=names)

    def connect(self) -> None:
        """Start the upstreams and the sandbox now: the host has its handshake. Later calls do nothing."""
        self._connected.set()

    def catalog(self) -> Catalog:
        """The tools as of now; built anew only after a listing changed or something new was learned. While a large
        listing that has changed is prepared in the background, the tools as of before."""
        if self._catalog_is_old and not self._is_large_change():
            self._catalog = self._newest_catalog()
            self._catalog_is_old = False
        if news := self.learning.take_news():
            self._catalog = self._catalog.with_observed(news)
        return self._catalog

    def _newest_catalog(self) -> Catalog:
        return Catalog.build(self.pool.listings(), self._catalog, self.learning.known)

    def _is_large_change(self) -> bool:
        known = {server.raw_name: server.listing for server in self._catalog.servers}
        return any(len(it.tools) > _LARGE_LISTING and known.get(it.name) is not it for it in self.pool.listings())

    async def _prepare_catalog(self) -> None:
        """Take over large listings that have changed, once what is shown of them was computed in a thread."""
        async with self._preparing:
            while self._catalog_is_old and self._is_large_change():
                newest = self._newest_catalog()
                await anyio.to_thread.run_sync(prepare, newest)
                self._catalog = newest

    async def indexed(self) -> RankerStack:
        """The ranking, knowing the catalog and the habits as of now; indexed off the event loop."""
        self.habits.load()
        async with self._indexing:
            catalog, skills = self.catalog(), await anyio.to_thread.run_sync(self._skills.entries)
            if self._indexed != (catalog, skills):
                await anyio.to_thread.run_sync(self.levels.index, collections(catalog, skills))
                self._indexed = catalog, skills
        return self.levels

    def _door(self, execution: Execution, skills: Skills) -> ProgramHostApi:
        return ProgramHostApi(
            execution.caller,
            gateway=self.gateway,
            listed=self.listed,
            catalog=self.catalog,
            skills=skills,
            search=partial(self._search, execution.session),
            showing=Showing(
                execution.execution_id,
                execution.session,
                execution.shown,
                limits=self.config.settings.limits,
                kept=self.kept,
                redactor=self.config.redactor,
            ),
            kept=self.kept,
            session=execution.session,
        )

    async def _search(
        self, session: Session, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> list[Any]:
        """For programs. In a thread: an encoder may have to be asked."""
        levels = await self.indexed()
        found = await anyio.to_thread.run_sync(
            search_tools, self.catalog(), levels, query, detail_level, server, limit, effect
        )
        if query.strip():
            self.habits.found(session, found.tools)
        return found.as_json()

    def _redactor(self, loaded: LoadedSettings) -> Redactor:
        return Redactor(loaded.secrets | self._http_tokens, loaded.guarded_secrets)

    def _listings_changed(self) -> None:
        self._catalog_is_old = True
        self._catalog_changed.set()

    async def _choose_sandbox(self) -> Choice:
        settings = self.loaded.settings
        try:
            return await choose(settings.sandbox, settings.limits, self._workspace.make(), self._announce)
        finally:
            self.activity = ""

    def _announce(self, line: str) -> None:
        """A line for the person; programs that wait for the sandbox show it to the host as progress."""
        self.activity = line
        print(f"codemode-server: {escaped(line)}", file=sys.stderr)

    async def _after_handshake(self) -> None:
        await self._connected.wait()
        self._patience_until = anyio.current_time() + _FIRST_LISTING_SECONDS
        await anyio.sleep(_AFTER_HANDSHAKE_SECONDS)
        self.pool.connect()
        self.sandbox.start_soon()
        names = await anyio.to_thread.run_sync(self.tracing.start, self.loaded.settings.tracing)
        self._traced.set()
        if names:
            logger.info("traces go to %s", ", ".join(names))
        await anyio.to_thread.run_sync(self._clean_leftovers, abandon_on_cancel=True)
        await self.levels.keep()

    def _clean_leftovers(self) -> None:
        """Remove what products that were killed have left of files."""
        is_ending = self._is_ending.is_set
        if count := self.kept.clean_leftovers(is_ending) + temporary.sweep(is_ending):
            logger.info("removed %d folders of earlier runs that were killed", count)

    async def _keep_bounded(self) -> None:
        await self._connected.wait()
        await anyio.sleep(_UPKEEP_AFTER_SECONDS)
        await self._upkeep.run()

    async def _keep_indexed(self) -> None:
        """Index in the background, off the event loop, what would otherwise hold up the first search."""
        while True:
            await self._catalog_changed.wait()
            await anyio.sleep(_INDEX_AFTER_SECONDS)
            self._catalog_changed = anyio.Event()
            await self._prepare_catalog()
            await self.indexed()

    async def _watch(self, place: ConfigFile) -> None:
        """Take over an edited configuration; one that can't be used is reported and leaves the old one in force."""
        async for news in changes(place, _WATCH_SECONDS, since=self.loaded):
            if isinstance(news, SettingsError):
                for line in str(news).splitlines():
                    logger.warning("the edited configuration is not used: %s", line)
                continue
            in_force = {name: getattr(self.config.settings, name) for name in _AT_START}
            later = [name for name, section in in_force.items() if getattr(news.settings, name) != section]
            if later:
                logger.warning("%s: what was edited here is taken over at the next start", ", ".join(later))
            self.loaded = news
            # One that was replaced stays valid for products that serve it.
            self._http_tokens |= await anyio.to_thread.run_sync(http_token.existing)
            settings = news.settings.model_copy(update=in_force)
            self.config.replace(settings, self._redactor(news), news.messages_for_model)
            await self.pool.reconfigure(news.settings.servers, reasons(news))
            self._listings_changed()
            logger.info("took over the edited %s", place.path)


@asynccontextmanager
async def inspected(loaded: LoadedSettings, wait_seconds: float) -> AsyncIterator[App]:
    """A product that serves nobody: connected to its upstreams, each of which is ready or has failed by now."""
    async with App.open(loaded) as app:
        logs.start(None, app.config)
        for line in loaded.all_messages:
            logger.warning("%s", line)
        app.pool.connect()
        await app.pool.wait_settled(wait_seconds)
        await app._prepare_catalog()
        yield app
