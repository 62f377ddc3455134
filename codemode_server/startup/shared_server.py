"""The person's running server: serves each host that connects to its socket in a session of its own.

A connection begins with a line of the host's process (`shim/attaching.py`): its folder and environment. The server
answers with the session. To a host whose values of the variables in the configuration differ from its own, it answers
with the name of another socket, for a server with the host's values. If a server that starts now would read another
configuration, it removes its socket: it serves the hosts that it has, and the next host starts a new server.

Only processes of the same user can connect: the folder of the socket is closed to others, and the system says who
connects. Such a process could do itself all that the server does, unless it is in a sandbox, as the commands of some
hosts are. So on Linux a server refuses processes that are not confined exactly as it is itself.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import sys
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
from codemode_server.config.places import VARIABLE, digest
from codemode_server.config.settings import RunningServerSettings
from codemode_server.domain.errors import JournalUnavailable, SettingsError
from codemode_server.domain.principals import PRINCIPAL_VARIABLE, Session
from codemode_server.processes.file_lock import held
from codemode_server.shim.attaching import confinement
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
_REFERENCE = re.compile(rb"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)")
_READ_BY_US = (
    *("HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "UV", "MSB_HOME", "DISPLAY", "WAYLAND_DISPLAY"),
    *("LANGFUSE_HOST", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"),
)
_PREFIXES = ("CODEMODE_", "OTEL_")
_NOT_COMPARED = {VARIABLE, PRINCIPAL_VARIABLE}
"""What the name of the socket says already."""
_SESSION = re.compile(r"[0-9a-f]{32}")
_SO_PEERPIDFD = 77
"""Option of sockets on Linux, which this Python has no name for."""


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
        with suppress(OSError), held(self._path.with_suffix(".lock"), timeout_s=_LAST_ANSWERS_SECONDS):
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
                if _is_ours(stream.extra(SocketAttribute.raw_socket)):  # noqa: S610 - no query of Django's
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


def environment_digests(loaded: LoadedSettings | SettingsError, *environments: Mapping[str, str]) -> list[str]:
    """For each environment, the digest of what a server with this configuration uses of it: the variables that the file
    names, those that codemode-server itself reads, and the programs on the PATH that are commands of servers. Reads the
    file."""
    names, commands = set(_READ_BY_US), set[str]()
    if not isinstance(loaded, SettingsError):
        for file in loaded.digests:
            with suppress(OSError):
                names |= {name.decode() for name in _REFERENCE.findall(Path(file).read_bytes())}
        commands = {it.command for it in loaded.settings.servers.values() if it.command}
    found = list[str]()
    for environ in environments:
        programs = [(command, shutil.which(command, path=environ.get("PATH"))) for command in sorted(commands)]
        compared = {name for name in environ if name in names or name.startswith(_PREFIXES)} - _NOT_COMPARED
        values = [(name, environ[name]) for name in sorted(compared)]
        found.append(digest(json.dumps([programs, values]).encode())[:16])
    return found


def _is_ours(connection: Any) -> bool:
    """True if the process on the other side is this user's, and no more confined than this one. Raises `OSError`."""
    if sys.platform == "linux":
        pid, uid, _ = struct.unpack("3I", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return uid == os.geteuid() and confinement(str(pid)) == confinement() and _lives(connection)
    if sys.platform == "darwin":
        uid = struct.unpack("2I", connection.getsockopt(0, 1, 8))[1]  # LOCAL_PEERCRED: the version, the user
        return bool(uid == os.geteuid())
    return True  # the folder is closed to others


def _lives(connection: Any) -> bool:
    """True if the process that connected goes on, so that its number is no other one's by now: a process in a sandbox
    could leave the connection to its child. Linux before 6.5 does not say. Raises `OSError`."""
    if sys.platform != "linux":
        return True
    try:
        process = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return True
        raise
    try:
        signal.pidfd_send_signal(process, 0)
    finally:
        os.close(process)
    return True
