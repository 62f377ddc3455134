"""Serving a host: the handshake first, all else after it; and an end that leaves nothing behind.

A host waits for the handshake, and the four tools are the same whatever is configured. So the front is up before the
configuration is even read, and the product is built once the host has its answer; a call that comes meanwhile waits.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import anyio

from codemode_server import __version__
from codemode_server.errors import CodemodeError, SettingsError
from codemode_server.front.late import LateTools
from codemode_server.front.server import FrontServer

if TYPE_CHECKING:
    from codemode_server.app import App

logger = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 0.5
"""How long the product waits for a handshake before it is built anyway."""
_AFTER_HANDSHAKE_SECONDS = 0.02
"""Between the first answer and what takes the processor from sending it."""


def serve(config: Path | None, http: str | None) -> NoReturn:
    """Serve until the host is gone or a signal comes; ends the process with its exit code."""
    anyio.run(_Service(config, _listener(*_address(http)) if http is not None else None).run)
    raise AssertionError("the process has ended")


class _Service:
    """One front, the product behind it, and what ends them."""

    def __init__(self, config: Path | None, listener: socket.socket | None) -> None:
        self._config = config
        self._listener = listener
        self._connected = anyio.Event()
        self._stop = anyio.Event()
        self._code = 0
        self._tools = LateTools()
        self._front = FrontServer(self._tools, version=__version__, on_connected=self._connected.set)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._take_signals)
            tasks.start_soon(self._serve_front)
            await self._serve_product()
            # What could still hold the process is a blocking read of stdin, and exporters of traces that nobody
            # answers; all that is ours is closed by now.
            logging.shutdown()
            sys.stderr.flush()
            os._exit(self._code)

    async def _serve_front(self) -> None:
        try:
            await (self._front.run_stdio_async() if self._listener is None else self._serve_http(self._listener))
        finally:
            self._stop.set()

    async def _serve_http(self, listener: socket.socket) -> None:
        import uvicorn

        self._connected.set()
        host, port = listener.getsockname()[:2]
        server = uvicorn.Server(uvicorn.Config(self._front.streamable_http_app(host=host), log_level="error"))
        print(f"codemode-server: http://{f'[{host}]' if ':' in host else host}:{port}/mcp", file=sys.stderr)
        await server._serve([listener])  # `serve` would put its own signal handlers in the place of ours

    async def _serve_product(self) -> None:
        """Build the product once the host is served, and keep it until the end."""
        with anyio.move_on_after(_HANDSHAKE_SECONDS):
            await self._connected.wait()
        await anyio.sleep(_AFTER_HANDSHAKE_SECONDS)
        try:
            from codemode_server import logs
            from codemode_server.app import App
            from codemode_server.config import load

            loaded = load(self._config)
            async with App.open(loaded, watch=True) as app:
                logs.start(app.state_folder / "logs", lambda: app.redactor)
                for warning in loaded.warnings:
                    logger.warning("%s", warning)
                self._tools.be(app.answers)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._pass_on_connected, app)
                    await self._stop.wait()
                    tasks.cancel_scope.cancel()
        except* CodemodeError as errors:
            self._tools.fail(_first(errors))
            print(f"codemode-server: {_first(errors)}", file=sys.stderr)
            self._code = 2

    async def _pass_on_connected(self, app: App) -> None:
        await self._connected.wait()
        app.connect()

    async def _take_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for number in received:
                self._code = 128 + number
                self._stop.set()


def _first(error: BaseException) -> CodemodeError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, CodemodeError)  # noqa: S101 - `except*` let nothing else through
    return error


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= 65_535
    if host not in ("127.0.0.1", "localhost", "[::1]", "::1") or not is_port:
        raise SettingsError(
            f"--http {text!r}: give 127.0.0.1:PORT. There is no authentication, so other machines are not served; "
            "put a proxy that authenticates in front if they must be."
        )
    return host.strip("[]"), int(port)


def _listener(host: str, port: int) -> socket.socket:
    """Opened before anything else, so that a port that is taken ends the command with a message."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise SettingsError(f"--http: {host}:{port} can't be opened: {why}; give another port") from error
