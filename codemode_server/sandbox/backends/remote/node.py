"""The node's end: admits replicas that know the token, runs programs in sandboxes, and passes their frames on, unread.

A client has five seconds to send the token, and can send nothing longer. If too many have not sent it, the oldest of
them is disconnected. A program ends at once when its replica disconnects. The sandbox limits memory, processor time and
files, as everywhere; the replica limits time, calls and values.
"""

from __future__ import annotations

import hmac
import logging
import ssl
import stat
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import cast

import anyio
from anyio.abc import ByteSendStream, ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.tls import TLSStream

from codemode_server import __version__
from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import CodemodeError, LimitExceeded, SettingsError
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import checked_name
from codemode_server.processes.stream_readers import FrameReader, framed
from codemode_server.sandbox import frames
from codemode_server.sandbox.backend_selection import choose
from codemode_server.sandbox.backends.remote.link import (
    Link,
    LinkLost,
    NodeState,
    ProgramEnd,
    Request,
    parsed,
    send_heartbeats,
)
from codemode_server.sandbox.channel import Channel
from codemode_server.sandbox.contract import Ending, HostApi, Limits, Outcome, Program, ProgramError, SandboxBackend
from codemode_server.sandbox.registry import Announce, NodeControl, NodeOptions, SandboxSettings
from codemode_server.support.setting_types import LOOPBACK_HOSTS

_log = logging.getLogger(__name__)
_ADMISSION_SECONDS = 5.0
_MAX_UNADMITTED = 64
_MAX_TOKEN_BYTES = 1_000
_MIN_TOKEN_BYTES = 16
_TIMEOUT_S = 15.0
"""Longer than a replica's: a replica that is late only keeps a sandbox busy."""
_BACKLOG = 256
_ACCEPT_PAUSE_S = 0.1
_STOP_POLL_SECONDS = 0.2
_MAX_FRAME_BYTES = 2**31
_DONE = b'{"op":"done"'


class Relay(Channel):
    """Takes the place of the `Channel`, which is at the replica: passes whole frames on, and reads only whether a frame
    is the last one."""

    def __init__(
        self,
        link: Link,
        first: bytes,
        reader: FrameReader,
        stream: ByteSendStream,
        program: Program,
        host_api: HostApi,
        signal: bytes,
    ) -> None:
        super().__init__(reader, stream, program, host_api, signal)
        self._link = link
        self._first = first

    def _first_frame(self) -> bytes:
        return self._first

    def _begin(self) -> None:
        self._has_begun = True
        self._program.begun.set()
        self._timer.deadline = float("inf")

    async def _read_frames(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._pass_to_guest)
        longest = frames.longest_frame(self._limits)
        while True:
            frame = await self._reader.read(longest if self._has_begun else 0)
            if not self._has_begun:
                self._begin()
                continue
            await self._link.send(framed(frame))
            if frame.startswith(_DONE):
                self._done = frames.Done(op="done", value_form="none", size=0)
                self._ended = (Ending.RETURNED, None)
                return

    async def _pass_to_guest(self) -> None:
        sent = anyio.Event()
        sent.set()
        try:
            while True:
                await self._send(framed(await self._link.frames.read(_MAX_FRAME_BYTES)), sent)
        except anyio.EndOfStream:
            pass  # so this run is being cancelled
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the guest has ended; its last frames, which may not be read yet, say how


class Node:
    """Serves replicas with the sandboxes of a backend."""

    def __init__(
        self, options: NodeOptions, tls: ssl.SSLContext | None, backend: SandboxBackend, control: NodeControl
    ) -> None:
        self._options = options
        self._control = control
        self._tls = tls
        self._backend = backend
        self._unadmitted: deque[anyio.CancelScope] = deque()
        """Connections whose client has not sent the token yet, the oldest first."""
        self._links: set[Link] = set()

    async def serve(self, listeners: Sequence[SocketListener]) -> None:
        """Until cancelled, or until the last connection of a node that is stopping has ended."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._backend.tend)
            tasks.start_soon(send_heartbeats, self._links)
            async with anyio.create_task_group() as connections:
                async with anyio.create_task_group() as accepting:
                    for listener in listeners:
                        accepting.start_soon(self._accept, listener, connections)
                    while not self._control.is_stopping:  # noqa: ASYNC110 - a signal handler can set no event
                        await anyio.sleep(_STOP_POLL_SECONDS)
                    accepting.cancel_scope.cancel()
                for listener in listeners:
                    await listener.aclose()
            tasks.cancel_scope.cancel()

    async def _accept(self, listener: SocketListener, connections: TaskGroup) -> None:
        while True:
            try:
                connections.start_soon(self._serve, await listener.accept())
            except OSError:  # too many open files, or a connection that was reset already
                await anyio.sleep(_ACCEPT_PAUSE_S)

    async def _serve(self, stream: SocketStream) -> None:
        link = None
        try:
            if (link := await self._admitted(stream)) is not None:
                self._links.add(link)
                await self._answer(link)
                await link.receive_message()  # until the replica closes the connection
        except (LinkLost, anyio.BrokenResourceError, anyio.EndOfStream):
            pass
        except Exception:  # noqa: BLE001 - it ends one connection, not the node
            _log.exception("internal error")
        finally:
            self._links.discard(link)
            await anyio.aclose_forcefully(stream)

    async def _admitted(self, stream: SocketStream) -> Link | None:
        """The connection, once its client has sent the token; None if it did not."""
        with anyio.move_on_after(_ADMISSION_SECONDS) as scope:
            self._unadmitted.append(scope)
            if len(self._unadmitted) > _MAX_UNADMITTED:
                self._unadmitted.popleft().cancel()
            try:
                link = Link(await self._encrypted(stream), _TIMEOUT_S)
                given = await link.receive_message(_MAX_TOKEN_BYTES, skips_heartbeats=False)
                if hmac.compare_digest(given, self._options.token.encode()):
                    return link
                await link.send_message(self._state("the token is not that of the node"))
            except OSError:  # no TLS
                pass
            finally:
                if scope in self._unadmitted:
                    self._unadmitted.remove(scope)
        return None

    async def _encrypted(self, stream: SocketStream) -> ByteStream:
        if self._tls is None:
            return stream
        return await TLSStream.wrap(stream, server_side=True, ssl_context=self._tls, standard_compatible=False)

    def _state(self, problem: str = "", *, has_workspace: bool = True, is_busy: bool = False) -> NodeState:
        has_workspace = has_workspace and self._options.workspaces is not None
        return NodeState(level=self._backend.level, has_workspace=has_workspace, problem=problem, is_busy=is_busy)

    async def _answer(self, link: Link) -> None:
        request = parsed(Request, await link.receive_message())
        if request.version != __version__:
            problem = f"it runs codemode-server {__version__}, and this is {request.version[:50]}"
            await link.send_message(self._state(problem))
        elif request.limits is None:
            await link.send_message(self._state())
        elif problem := self._workspace_problem(request.workspace):
            await link.send_message(self._state(problem))
        elif self._control.programs >= self._options.programs:
            await link.send_message(self._state(f"it runs {self._control.programs} programs already", is_busy=True))
        else:
            self._control.programs += 1
            try:
                end = await self._run(link, request, request.limits)
            finally:
                self._control.programs -= 1
            await link.send_message(end)

    async def _run(self, link: Link, request: Request, limits: Limits) -> ProgramEnd:
        root, name = self._options.workspaces, request.workspace
        await link.send_message(self._state(has_workspace=name is not None))
        first = framed(await link.frames.read(_MAX_FRAME_BYTES))
        program = Program(
            ExecutionId(""),
            "",
            limits,
            workspace=root / name if root is not None and name is not None else None,
            session_id=request.session_id,
            is_last=request.is_last,
            channel=partial(Relay, link, first),
        )
        outcome = Outcome(Ending.DIED)
        try:
            with anyio.CancelScope() as scope:
                link.on_end = scope.cancel
                # No `HostApi`: the replica answers the frames.
                outcome = await self._backend.run(program, cast("HostApi", None))
        except CodemodeError as error:
            setting = error.setting if isinstance(error, LimitExceeded) else None
            ending = Ending.DIED if setting is None else Ending.LIMITED
            outcome = Outcome(ending, error=ProgramError(type(error).__name__, str(error), setting=setting))
        return ProgramEnd(has_begun=program.begun.is_set(), outcome=outcome)

    def _workspace_problem(self, name: str | None) -> str:
        """Why the program's folder can't be used; empty if it can, or if this node shares no folders. Only a folder
        directly in `--workspaces` is accepted: the name has to be that of a principal, and the folder no link."""
        if self._options.workspaces is None or name is None:
            return ""
        try:
            folder = self._options.workspaces / checked_name(name)
            if stat.S_ISDIR(folder.lstat().st_mode):
                return ""
            reason = "it is no folder"
        except (OSError, ValueError) as error:
            reason = str(error)
        return f"the workspace {name[:80]!r} is not in its --workspaces, which has to be shared: {reason}"


async def serve(options: NodeOptions, announce: Announce, control: NodeControl) -> None:
    """Until cancelled, or stopped by `control`. Raises `SettingsError`, `SandboxUnavailable`, or `OSError` if the port
    can't be opened or the certificate can't be read."""
    if len(options.token.encode()) < _MIN_TOKEN_BYTES:
        raise SettingsError(
            f"$CODEMODE_NODE_TOKEN needs at least {_MIN_TOKEN_BYTES} characters, those of sandbox.node_token"
        )
    tls = None
    if options.certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(options.certificate)
    elif options.host not in LOOPBACK_HOSTS:
        raise SettingsError(f"on {options.host} a node needs TLS: give --certificate")
    settings = SandboxSettings(backend=options.backend)
    async with await anyio.create_tcp_listener(
        local_host=options.host, local_port=options.port, backlog=_BACKLOG
    ) as listener:
        choice = await choose(settings, LimitSettings(), None, announce)
        try:
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no SQL
            backend = choice.backend
            announce(f"node on {options.host}, port {port}: at most {options.programs} programs, in {backend.name}")
            await Node(options, tls, backend, control).serve(cast("Sequence[SocketListener]", listener.listeners))
        finally:
            with anyio.CancelScope(shield=True):
                await choice.backend.aclose()
