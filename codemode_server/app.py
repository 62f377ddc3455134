"""Wiring: builds every object of a product once, starts and stops them; holds no rule of its own."""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
import platformdirs

from codemode_server import __version__, logs
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.search import LexicalRanker, Ranker, search_tools
from codemode_server.config import LoadedSettings, changes
from codemode_server.errors import SettingsError
from codemode_server.execution.door import ProgramDoor
from codemode_server.execution.executor import Executor
from codemode_server.execution.skills import Skills
from codemode_server.execution.workspace import Workspace
from codemode_server.front.answers import Answers
from codemode_server.front.server import FrontServer
from codemode_server.gateway.gateway import Caller, Gateway
from codemode_server.model import UpstreamState, definition_text
from codemode_server.redaction import Redactor
from codemode_server.sandbox.ladder import Sandbox, make_backend
from codemode_server.storage.database import Database
from codemode_server.storage.ledger_store import LedgerStore
from codemode_server.storage.listing_store import ListingStore
from codemode_server.telemetry.tracing import Tracing
from codemode_server.tokens import estimate_tokens
from codemode_server.upstream.pool import UpstreamPool

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

_AFTER_HANDSHAKE_SECONDS = 0.05
"""Between the first answer to the host and our own start of processes, so that the answer is out first."""
_WATCH_SECONDS = 1.0
_FIRST_LISTING_SECONDS = 10.0
"""How long after the handshake a model that looks for tools waits for upstreams that were never listed before."""


class App:
    """One product: everything between a host and its upstreams. Made by `open`."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self.loaded = loaded
        settings = loaded.settings
        self.state_folder = Path(settings.state.dir or platformdirs.user_data_dir("codemode-server"))
        self.redactor = Redactor(loaded.secrets)
        self.database = Database(self.state_folder)
        ledger = LedgerStore(self.database)
        self.pool = UpstreamPool(settings.servers, ListingStore(self.database), self._listings_changed)
        self._catalog = Catalog()
        self._catalog_is_old = True
        self.ranker: Ranker = LexicalRanker()
        self.sandbox = Sandbox(lambda: make_backend(self.loaded.settings.sandbox, self._announce))
        self.activity = ""
        workspace = Workspace(self.state_folder, settings.state.customer)
        skills = Skills(loaded.base_dir / settings.state.skills)
        self.gateway = Gateway(
            catalog=self.catalog,
            upstreams=self.pool,
            permissions=lambda: self.loaded.settings.permissions,
            ledger=ledger,
            redactor=lambda: self.redactor,
            payloads=settings.state.payloads,
        )
        self.executor = Executor(
            traced=lambda: self._traced.wait(),
            sandbox=self.sandbox,
            door=lambda caller: self._door(caller, skills),
            limits=lambda: self.loaded.settings.limits,
            ledger=ledger,
            workspace=workspace,
            redactor=lambda: self.redactor,
            payloads=settings.state.payloads,
            session_id=uuid.uuid4().hex[:12],
            customer=settings.state.customer,
        )
        self._connected = anyio.Event()
        self._traced = anyio.Event()
        self._patience_until = anyio.current_time() + _FIRST_LISTING_SECONDS
        self.front = FrontServer(
            Answers(
                listed=self.listed,
                catalog=self.catalog,
                ranker=lambda: self.ranker,
                workspace=workspace,
                skills=skills,
                executor=self.executor,
                limits=lambda: self.loaded.settings.limits,
                redactor=lambda: self.redactor,
                activity=lambda: self.activity,
            ),
            version=__version__,
            on_connected=self._connected.set,
        )
        self.tracing = Tracing()

    @classmethod
    @asynccontextmanager
    async def open(cls, loaded: LoadedSettings, *, watch: bool = False) -> AsyncIterator[App]:
        """A running product. Nothing of it connects or starts a process before the host has had its first answer
        (or `connect` is called), and nothing of it is left once this is left."""
        app = cls(loaded)
        try:
            async with app.sandbox.open(), app.pool.open(), app.executor.open(), anyio.create_task_group() as tasks:
                tasks.start_soon(app._after_handshake)
                if watch and loaded.path is not None:
                    tasks.start_soon(app._watch, loaded.path)
                try:
                    yield app
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            app.tracing.shutdown()
            app.database.close()

    async def listed(self) -> None:
        """Wait, a bounded time after the handshake, for upstreams of which nothing is known from last time."""
        if self.pool.is_expecting_tools and self._patience_until > anyio.current_time():
            self._connected.set()
            await self.pool.wait_settled(self._patience_until - anyio.current_time())

    def connect(self) -> None:
        """Start the upstreams and the sandbox now; later calls do nothing."""
        self._connected.set()

    def catalog(self) -> Catalog:
        """The tools as of now; built anew only after a listing changed."""
        if self._catalog_is_old:
            self._catalog = Catalog.build(self.pool.listings(), self._catalog)
            self._catalog_is_old = False
            self.ranker.index(self._catalog)
        return self._catalog

    def _door(self, caller: Caller, skills: Skills) -> ProgramDoor:
        return ProgramDoor(
            caller,
            gateway=self.gateway,
            listed=self.listed,
            catalog=self.catalog,
            skills=skills,
            search=lambda query, level, server, limit: search_tools(
                self.catalog(), self.ranker, query, level, server, limit
            ).as_json(),
        )

    def _listings_changed(self) -> None:
        self._catalog_is_old = True

    def _announce(self, line: str) -> None:
        """A line for the person, shown to the host as progress while it is true."""
        self.activity = line
        if line:
            print(f"codemode-server: {line}", file=sys.stderr)

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

    async def _watch(self, path: Path) -> None:
        """Take over an edited configuration; one that can't be used is reported and leaves the old one in force."""
        async for news in changes(path, _WATCH_SECONDS, since=self.loaded):
            if isinstance(news, SettingsError):
                logger.warning("the edited configuration is not used: %s", news)
                continue
            self.loaded = news
            self.redactor = Redactor(news.secrets)
            await self.pool.reconfigure(news.settings.servers)
            self._listings_changed()
            logger.info("took over the edited %s", path)


def serve(loaded: LoadedSettings, http: str | None) -> int:
    """Serve until the host is gone or a signal comes; gives the exit code."""
    return anyio.run(_serve, loaded, _address(http) if http else None)


async def _serve(loaded: LoadedSettings, address: tuple[str, int] | None) -> int:
    stop = anyio.Event()
    code = 0

    async def front(app: App) -> None:
        try:
            await (app.front.run_stdio_async() if address is None else _serve_http(app, *address))
        finally:
            stop.set()

    async def signals() -> None:
        nonlocal code
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for number in received:
                code = 128 + number
                stop.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(signals)
        async with App.open(loaded, watch=True) as app:
            logs.start(app.state_folder / "logs", lambda: app.redactor)
            for warning in loaded.warnings:
                logger.warning("%s", warning)
            tasks.start_soon(front, app)
            await stop.wait()
        if code:
            # The front may sit in a blocking read of stdin, which nothing can interrupt; all else is closed by now.
            logging.shutdown()
            os._exit(code)
        tasks.cancel_scope.cancel()
    return code


async def _serve_http(app: App, host: str, port: int) -> None:
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(app.front.streamable_http_app(host=host), host=host, port=port, log_level="error")
    )
    app.connect()
    print(f"codemode-server: http://{host}:{port}/mcp", file=sys.stderr)
    # uvicorn's own signal handling would take ours away.
    await server._serve()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if host not in ("127.0.0.1", "localhost", "[::1]", "::1") or not port.isdigit() or int(port) > 65_535:
        raise SettingsError(
            f"--http {text!r}: give 127.0.0.1:PORT. There is no authentication, so other machines are not served; "
            "put a proxy that authenticates in front if they must be."
        )
    return host.strip("[]"), int(port)


def status(loaded: LoadedSettings, *, wait_seconds: float) -> tuple[str, bool]:
    """How each upstream is, as text, and whether all that are enabled are ready."""
    return anyio.run(_with_upstreams, loaded, wait_seconds, _status_text)


def sync(loaded: LoadedSettings, folder: Path, *, wait_seconds: float) -> str:
    """Write the tree of stubs to `folder`; gives a line that says what was done."""
    from codemode_server.catalog.sync import sync as write_tree

    return anyio.run(_with_upstreams, loaded, wait_seconds, lambda app: write_tree(app.catalog(), folder).text)


async def _with_upstreams(loaded: LoadedSettings, wait_seconds: float, then: Callable[[App], _T]) -> _T:
    """Connect to the upstreams, wait until each is ready or has failed, and give what `then` makes of it."""
    async with App.open(loaded) as app:
        logs.start(None, lambda: app.redactor)
        for warning in loaded.warnings:
            logger.warning("%s", warning)
        app.pool.connect()
        await app.pool.wait_settled(wait_seconds)
        return then(app)


def _status_text(app: App) -> tuple[str, bool]:
    """A table of the upstreams, and what is wrong with them beneath."""
    rows = [("server", "state", "protocol", "tools", "tokens")]
    notes: list[str] = []
    for server in app.catalog().servers:
        tokens = sum(estimate_tokens(definition_text(tool.definition)) for tool in server.tools)
        rows.append(
            (server.raw_name, server.state.value, server.protocol or "-", f"{len(server.tools):,}", f"{tokens:,}")
        )
        if server.error:
            notes.append(f"{server.raw_name}: {app.redactor.text(server.error)}")
        notes.extend(f"{server.raw_name}: left out: {app.redactor.text(problem)}" for problem in server.problems)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if len(rows) == 1:
        table = ["no servers are configured; see the example upstream.yaml"]
    is_well = all(server.state in (UpstreamState.READY, UpstreamState.DISABLED) for server in app.catalog().servers)
    return "\n".join([*table, *([""] if notes else []), *notes]), is_well
