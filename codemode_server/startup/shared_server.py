"""The person's running server: serves each host that connects to its socket in a session of its own.

A connection begins with a line of the host's process (`shim/attaching.py`): its folder and environment. The server
answers with the session. To a host whose values of the variables in the configuration differ from its own, it answers
with the name of another socket, for a server with the host's values (`own_hosts.py`). If a server that started now
would read another configuration, this one removes its socket: it goes on with the hosts that it has, and the next host
starts a new server.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from codemode_server import __version__
from codemode_server.config import locate
from codemode_server.config.settings import RunningServerSettings
from codemode_server.domain.errors import JournalUnavailable, SettingsError
from codemode_server.domain.principals import Session
from codemode_server.processes.file_lock import held
from codemode_server.startup.own_hosts import environment_digests, is_ours
from codemode_server.storage.interrupted import interrupted_programs, settle_before_reading
from codemode_server.support.change_signal import ChangeSignal

if TYPE_CHECKING:
    from codemode_server.app import App
    from codemode_server.config import LoadedSettings
    from codemode_server.mcp_server.server import McpServer
    from codemode_server.mcp_server.socket_streams import SocketLines

logger = logging.getLogger(__name__)

_FIRST_LINE_SECONDS = 10.0
_MAX_FIRST_LINE_BYTES = 1 << 20
_FIRST_HOST_SECONDS = 60.0
"""From the start to the first host, whose process has started the server."""
_LOOK_SECONDS = 1.0
"""How often a server without hosts looks whether its programs have ended."""
_NO_FILES_SECONDS = 0.1
"""Until the next try where the process has as many files and connections open as it may."""
_LAST_ANSWERS_SECONDS, _ANSWERED_SECONDS = 3.0, 0.05
"""For programs that the end of the server ends, and for their answers."""
_LOCK_SECONDS = 3.0
"""For the process of a host that starts a server meanwhile."""
_SESSION = re.compile(r"[0-9a-f]{32}")


class Start(Protocol):
    """What the server begins with."""

    config: Path | None

    def configuration(self) -> LoadedSettings | SettingsError:
        """The configuration of the start, or why it can't be used. Blocks."""


class SharedServer:
    """Serves hosts on the socket that the first one's process has opened."""

    def __init__(self, descriptor: int, start: Start) -> None:
        """Takes over the listening socket. Raises `OSError`: it is none."""
        self._start = start
        self._app: App | None = None
        """The product, once it is there."""
        self.has_failed = False
        """True if the product can't start, though the configuration can be used."""
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._path = Path(self._socket.getsockname())
        self._inode = self._path.stat().st_ino
        self._sessions: set[str] = set()
        self._changed = ChangeSignal()
        self._began_at = time.time()
        self._has_name = True
        self._stop = anyio.Event()

    def set_ready(self, app: App) -> None:
        """The product is there. None of the sessions takes the last place of a program from the others."""
        self._app = app
        app.executions.runner.turns.attached = self._sessions
        app.pool.own_connections.attached = self._sessions

    async def serve(self, front: McpServer) -> None:
        """Serve until no host was there for a while and no program runs, or until somebody wants its end."""
        listener = await SocketListener.from_socket(self._socket)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(front.announce_changes)
            tasks.start_soon(self._stop_when_unused, front)
            tasks.start_soon(self._accept, listener, front, tasks)
            await self._stop.wait()
            await self.leave()
            front.drain()
            front.cancel_all()
            with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
                while front.has_live:  # noqa: ASYNC110 - it is looked at only now
                    await anyio.sleep(_ANSWERED_SECONDS)
            await anyio.sleep(_ANSWERED_SECONDS)  # the answers are on their way
            tasks.cancel_scope.cancel()

    def end(self) -> None:
        """Have `serve` return."""
        self._stop.set()

    async def _stop_when_unused(self, front: McpServer) -> None:
        least = _FIRST_HOST_SECONDS
        while self._sessions or front.has_live or await self._comes_within(max(self._idle_seconds, least)):
            least = 0.0
            if self._sessions:
                await self._changed.wait()
            else:
                await anyio.sleep(_LOOK_SECONDS)
        self.end()

    async def _comes_within(self, seconds: float) -> bool:
        """Wait for a host; false if none comes in time, or none can come."""
        with anyio.move_on_after(seconds):
            while not self._sessions and self._has_name:
                await self._changed.wait()
        return bool(self._sessions)

    @property
    def _idle_seconds(self) -> float:
        settings = self._app.config.settings.server if self._app is not None else RunningServerSettings()
        return settings.idle_minutes * 60.0

    async def leave(self) -> None:
        """Give up the name of the socket, so that whoever comes starts another server."""
        if self._has_name:
            self._has_name = False
            await anyio.to_thread.run_sync(self._unlink)
            self._changed.notify()

    def _unlink(self) -> None:
        with suppress(OSError), held(self._path.with_suffix(".lock"), timeout_s=_LOCK_SECONDS):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    async def _accept(self, listener: SocketListener, front: McpServer, tasks: TaskGroup) -> None:
        """Serve each connection. One that can't be accepted leaves the others as they are."""
        while True:
            try:
                stream = await listener.accept()
            except anyio.BrokenResourceError:
                await anyio.sleep(_NO_FILES_SECONDS)
            else:
                tasks.start_soon(self._take, stream, front)

    async def _take(self, stream: SocketStream, front: McpServer) -> None:
        from codemode_server.mcp_server.socket_streams import SocketLines

        async with stream:
            try:
                if is_ours(stream.extra(SocketAttribute.raw_socket)):  # noqa: S610 - no query of Django's
                    await self._serve_host(SocketLines(stream), front)
            except* (OSError, ValueError, anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError):
                pass  # it has gone, or speaks something else
            except* Exception:
                logger.exception("internal error in the session of a host")

    async def _serve_host(self, lines: SocketLines, front: McpServer) -> None:
        with anyio.fail_after(_FIRST_LINE_SECONDS):
            hello = json.loads(await lines.line(_MAX_FIRST_LINE_BYTES))
        match hello:
            case {"ask": "status" | "stop" as question}:
                answer = await self._status()
                if question == "stop":
                    self.end()
            case {"folder": str(folder), "environment": {**environment}, "session": str(known)}:
                answer = await self._answer(environment, known, front)
                if session_id := answer.get("session"):
                    await self._serve_session(Session(session_id, folder=folder), answer, lines, front)
                    return
            case _:
                return
        if answer:
            await lines.write(json.dumps(answer) + "\n")

    async def _serve_session(
        self, session: Session, answer: dict[str, Any], lines: SocketLines, front: McpServer
    ) -> None:
        if session.session_id in self._sessions:
            return  # another connection has it meanwhile
        self._sessions.add(session.session_id)
        self._changed.notify()
        try:
            await lines.write(json.dumps(answer) + "\n")
            files = cast("anyio.AsyncFile[str]", lines)
            await front.run_connection(session, files, files)
        finally:
            self._sessions.remove(session.session_id)
            if self._app is not None:
                self._app.pool.own_connections.leave(session)
            self._changed.notify()

    async def _answer(self, environment: Mapping[Any, Any], known: str, front: McpServer) -> dict[str, Any]:
        """The first line for a host; empty if it has to find another server."""
        loaded = await anyio.to_thread.run_sync(self._start.configuration) if self._app is None else self._app.loaded
        if self._stop.is_set() or not self._has_name or await self._is_outdated(loaded):
            await self.leave()
            return {}
        theirs = {str(name): str(value) for name, value in environment.items()}
        ours, other = await anyio.to_thread.run_sync(environment_digests, loaded, os.environ, theirs)
        if ours != other:
            return {"other": f"-{other}"}
        is_known = _SESSION.fullmatch(known) is not None and known not in self._sessions
        answer: dict[str, Any] = {"session": known if is_known else secrets.token_hex(16)}
        if is_known:
            await front.wait_until_settled()
            answer["interrupted"] = await anyio.to_thread.run_sync(self._interrupted, Session(known))
        if isinstance(loaded, SettingsError):
            answer["notice"] = str(loaded)
        return answer

    def _interrupted(self, session: Session) -> list[str]:
        """The programs of a session that a killed server has left."""
        if self._app is None:
            return []
        stores = self._app.stores
        settle_before_reading(stores.database, stores.ownership)
        try:
            return interrupted_programs(stores.database, session, self._began_at)
        except JournalUnavailable:
            return []

    async def _is_outdated(self, loaded: LoadedSettings | SettingsError) -> bool:
        """True if a server that begins now would read another configuration, or may start where this one failed."""
        if self.has_failed or (self._app is not None and self._app.takeover.whole is None):
            return True
        if isinstance(loaded, SettingsError) or (loaded.place is not None and not loaded.unused_file):
            return False
        place = await anyio.to_thread.run_sync(locate, self._start.config)
        return place != loaded.place if loaded.place is not None else place.path.is_file()

    async def _status(self) -> dict[str, Any]:
        place = self._app.loaded.place if self._app is not None else None
        if place is None:
            place = await anyio.to_thread.run_sync(locate, self._start.config)
        more = dict(self._app.pool.own_connections.counts()) if self._app is not None else {}
        about = {"version": __version__, "sessions": len(self._sessions), "config": str(place.path)}
        return {"pid": os.getpid(), "since": self._began_at, "more_connections": more, **about}
