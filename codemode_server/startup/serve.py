"""Serves a host: answers the handshake first, then builds the product, and ends every process on exit.

Hosts wait for the handshake and the list of tools, Codex for one second. Over stdio both are answered while the MCP
library is still being imported (`mcp_server/opening.py`). The product is built after that; earlier calls wait for it.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

import anyio
import anyio.to_thread

from codemode_server.domain.errors import CodemodeError, SettingsError
from codemode_server.mcp_server.opening import FirstLists, HostStreams, Opening
from codemode_server.startup.http_listener import HttpListener, address

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codemode_server.app import App
    from codemode_server.config import LoadedSettings
    from codemode_server.config.live import LiveConfig
    from codemode_server.mcp_server.http import HttpService
    from codemode_server.startup.shared_server import SharedServer
    from codemode_server.startup.upstream_catalog import UpstreamCatalog

logger = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 0.5
"""Maximum wait for a handshake before the product is built."""
_STDERR = "stderr of codemode-server"
_AFTER_HANDSHAKE_SECONDS = 0.02
"""Delay between the first answer and further work, so that the answer is sent first."""
_STORED_AFTER_SECONDS = 1.0
"""Delay between a change of the tools and its storing; others follow while servers start."""
_LOOK_SECONDS, _LAST_ANSWERS_SECONDS = 0.05, 3.0
"""How often a server that drains looks whether programs run, and how long those have for their answers that it ends."""
_ACCEPTED_SECONDS = 1.0
"""Between the last request that a draining server accepts, and the last program that it starts."""
_STARTING_SECONDS = 5.0
"""After the first answer; then the libraries are loaded and the servers have listed their tools."""


def serve(
    config: Path | None,
    http: str | None,
    *,
    listener: int | None = None,
    opened: Opening | None = None,
    new_token: bool = False,
    has_mcp_tracing: bool = True,
) -> NoReturn:
    """Serve until the host disconnects, or on the socket `listener` until no host is left for a while, or a signal
    arrives, then end the process with its exit code. `opened` has answered the host's first requests already. Without
    `has_mcp_tracing`, `tracing.mcp` is off."""
    start = _Start(config, has_mcp_tracing=has_mcp_tracing)
    way: Opening | HttpListener | SharedServer
    if http is not None:
        way = HttpListener.open(*address(http), start.configuration(), new_token=new_token)
    elif new_token:
        raise SettingsError("--new-token is for --http; over stdio there is no token")
    elif listener is not None:
        from codemode_server.startup.shared_server import SharedServer

        way = SharedServer(listener, start)
        start.store_lists()
    elif opened is not None:
        way = opened
    else:
        way = Opening(HostStreams.standard(), start)
        way.run()
    start.load_server()
    anyio.run(_Service(start, way).run)
    raise AssertionError("the process has ended")


class _Start:
    """Reads configuration and lists before the product is there, each once."""

    def __init__(self, config: Path | None, *, has_mcp_tracing: bool = True) -> None:
        self.config = config
        self.has_mcp_tracing = has_mcp_tracing
        self.tools: UpstreamCatalog | None = None
        """As of the last run; None if it was not read for the lists."""
        self._configuration: LoadedSettings | SettingsError | None = None
        self._loading = threading.Lock()

    def configuration(self) -> LoadedSettings | SettingsError:
        """The configuration at the first call, or why it can't be used. May be called in several threads."""
        from codemode_server.config import load
        from codemode_server.sandbox.registry import compile_early

        with self._loading:
            if self._configuration is None:
                try:
                    self._configuration = loaded = load(self.config)
                    compile_early(loaded.settings.sandbox)  # the product waits for that longest, the first time
                except SettingsError as error:
                    self._configuration = error
            return self._configuration

    @property
    def secret(self) -> str | None:
        """What servers over HTTP may share; over stdio a host has one server."""
        loaded = self._configuration
        return None if loaded is None or isinstance(loaded, SettingsError) else loaded.settings.state.key

    def lists(self) -> FirstLists | None:
        from codemode_server.startup import first_lists

        try:
            if (stored := first_lists.stored(self.config)) or isinstance(loaded := self.configuration(), SettingsError):
                return stored
            from codemode_server.startup.upstream_catalog import UpstreamCatalog

            self.tools = UpstreamCatalog(loaded)
            return first_lists.current(self.tools)
        except Exception:  # noqa: BLE001 - the product meets the same error, and reports it to the model and the person
            return None

    def store_lists(self) -> None:
        """Write the lists, for which the process of the first host looks; they are there before the server is."""
        from codemode_server.startup import first_lists

        lists, loaded = self.lists(), self._configuration
        if lists is not None and loaded is not None and not isinstance(loaded, SettingsError):
            first_lists.write(loaded, lists)

    def load_server(self) -> None:
        """Do the slow imports. Over stdio this runs in a thread while the first requests are answered."""
        import_module("codemode_server.mcp_server.server")
        import_module("codemode_server.app")


class _Service:
    """One MCP server, the product behind it, and their end."""

    def __init__(self, start: _Start, way: Opening | HttpListener | SharedServer) -> None:
        """`way`: who is served, the host behind an opening, or hosts over HTTP or at a socket."""
        from codemode_server.mcp_server.server import McpServer

        self._start = start
        self._way = way
        self._listener = way if isinstance(way, HttpListener) else None
        self._shared = None if isinstance(way, Opening | HttpListener) else way
        self._stop = anyio.Event()
        self._code = 0
        self._log = ""
        """Path of the log, for messages; empty until the log is started."""
        self._http: HttpService | None = None
        self._front = McpServer(way.definitions if isinstance(way, Opening) else None, start.secret)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_signals, tasks)
            tasks.start_soon(self._serve_front)
            try:
                await self._serve_product()
            except Exception:
                # Left to the task group, it would wait for the blocking read of stdin, and the host for an answer.
                logger.exception("internal error")
                self._code = 1
            # What could still hold the process is a blocking read of stdin, and exporters of traces that nobody
            # answers; all that is ours is closed by now.
            logging.shutdown()
            sys.stderr.flush()
            os._exit(self._code)

    async def _serve_front(self) -> None:
        try:
            if isinstance(self._way, Opening):
                await self._serve_host(self._way)
            elif isinstance(self._way, HttpListener):
                await self._serve_http(self._way)
            else:
                await self._way.serve(self._front)
        except* BrokenPipeError:  # the host has gone in the middle of an answer
            pass
        finally:
            self._stop.set()

    async def _serve_host(self, opening: Opening) -> None:
        from codemode_server.domain.principals import Session

        received, sent = (anyio.wrap_file(cast("TextIO", it)) for it in opening.streams())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._front.announce_changes)
            await self._front.run_connection(Session(token_hex(16), folder=str(Path.cwd())), received, sent)
            tasks.cancel_scope.cancel()

    async def _serve_http(self, listener: HttpListener) -> None:
        from codemode_server.cli import logs
        from codemode_server.config.live import LiveConfig
        from codemode_server.mcp_server import http
        from codemode_server.mcp_server.replicas import address_of
        from codemode_server.support.redaction import Redactor

        logs.start(None, LiveConfig(redactor=Redactor(listener.tokens)))  # until the configuration is read
        self._front.connected.set()
        access = listener.access
        app = http.sessions(self._front, listener.host, access.settings.url)
        self._front.address = address_of(listener.socket)
        self._http = http.HttpService(app, access, self._front)
        listener.announce()
        await self._http.server.serve([listener.socket])

    async def _serve_product(self) -> None:
        if isinstance(self._way, Opening):
            with anyio.move_on_after(_HANDSHAKE_SECONDS):
                await self._front.connected.wait()
            await anyio.sleep(_AFTER_HANDSHAKE_SECONDS)
        loaded: LoadedSettings | None = None
        try:
            loaded = await self._configuration()
            if loaded is None:
                return
            from codemode_server.app import App
            from codemode_server.startup.first_lists import store

            start = self._start
            async with App.open(loaded, tools=start.tools, watch=True, has_mcp_tracing=start.has_mcp_tracing) as app:
                self._start_log(app.state_folder, app.config)
                for line in loaded.all_messages:
                    logger.warning("%s", line)
                self._front.set_ready(app)
                if self._shared is not None:
                    self._shared.set_ready(app)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._exempt_from_collection)
                    if self._listener is None:
                        tasks.start_soon(_store_lists, app)
                    await self._stop.wait()
                    tasks.cancel_scope.cancel()
                if self._listener is None:
                    await store(app)
        except* CodemodeError as errors:
            self._refuse(_first(errors))
        except* Exception as errors:  # noqa: BLE001 - it is logged, and a host that gets no answer would wait for ever
            self._fail(errors, loaded)
        if self._shared is not None:
            self._shared.has_failed = not self._stop.is_set()
        await self._stop.wait()

    async def _configuration(self) -> LoadedSettings | None:
        loaded = await anyio.to_thread.run_sync(self._start.configuration)
        if not isinstance(loaded, SettingsError):
            return loaded
        self._refuse(loaded)
        from codemode_server.config import locate
        from codemode_server.config.watching import changes

        place = await anyio.to_thread.run_sync(locate, self._start.config)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancel_when_stopped, tasks.cancel_scope)
            async for news in changes(place, since=loaded):
                if not isinstance(news, SettingsError):
                    self._code = 0
                    tasks.cancel_scope.cancel()
                    return news
                self._refuse(news)
        return None

    async def _cancel_when_stopped(self, scope: anyio.CancelScope) -> None:
        await self._stop.wait()
        scope.cancel()

    def _refuse(self, error: CodemodeError) -> None:
        """Serve only the reason, to the model and on stderr: hosts hide the output of a process that ends."""
        from codemode_server.support.text import escaped_lines

        print(f"codemode-server: {escaped_lines(str(error))}", file=sys.stderr)
        self._code = 2
        self._front.set_failed(error)

    def _fail(self, error: BaseException, loaded: LoadedSettings | None) -> None:
        """Serve only an error message after an unexpected error."""
        from codemode_server.config.live import LiveConfig
        from codemode_server.startup.stores import state_folder
        from codemode_server.support.redaction import Redactor

        if loaded is not None and not self._log:
            tokens = self._listener.tokens if self._listener is not None else frozenset()
            redactor = Redactor(loaded.secrets | tokens)
            self._start_log(state_folder(loaded.settings), LiveConfig(loaded.settings, redactor))
        logger.error("internal error", exc_info=error)
        self._code = 1
        shown = CodemodeError(f"internal error; the log has the details: {self._log or _STDERR}")
        self._front.set_failed(shown)

    def _start_log(self, state_folder: Path, config: LiveConfig) -> None:
        from codemode_server.cli import logs
        from codemode_server.support.text import escaped

        file = logs.start(state_folder / logs.FOLDER_NAME, config)
        self._log = escaped(str(file)) if file is not None else _STDERR

    async def _exempt_from_collection(self) -> None:
        """Take the objects that stay, such as modules and the catalog, out of garbage collection: each full collection
        would go through them, and hold all programs for a tenth of a second."""
        await self._front.connected.wait()
        await anyio.sleep(_STARTING_SECONDS)
        gc.collect()
        gc.freeze()

    async def _take_signals(self, tasks: TaskGroup) -> None:
        if sys.platform == "win32":
            return  # its event loop has no signal handlers; Ctrl+C raises KeyboardInterrupt
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for number in received:
                if number == signal.SIGTERM and self._http and self._listener and not self._front.is_draining:
                    self._front.stop_accepting()
                    tasks.start_soon(self._drain, self._http, self._listener.access.settings.drain_seconds)
                else:
                    self._code = 128 + number
                    if self._shared is None:
                        self._stop.set()
                    else:
                        self._shared.end()

    async def _drain(self, service: HttpService, seconds: float) -> None:
        """Let programs and answers come to their end, and end then."""
        await anyio.sleep(_ACCEPTED_SECONDS)
        self._front.drain()
        with anyio.move_on_after(seconds) as limit:
            while self._front.has_live:  # noqa: ASYNC110 - it is looked at only now
                await anyio.sleep(_LOOK_SECONDS)
            await service.drained()
        if limit.cancelled_caught:
            self._front.cancel_all()
            with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
                await service.drained()
        self._stop.set()


async def _store_lists(app: App) -> None:
    """Store the lists for the next start, and again when they may have changed."""
    from codemode_server.startup.first_lists import store

    revision = 0
    while True:
        await store(app)
        revision = await app.tools.wait_newer(revision)
        await anyio.sleep(_STORED_AFTER_SECONDS)


def _first(error: BaseException) -> CodemodeError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, CodemodeError)  # noqa: S101 - `except*` let nothing else through
    return error
