"""The end of a node: it admits replicas by a token, gives each program a sandbox, and passes the frames on, unread.

Whoever has no token gets five seconds and the size of one; of those who have not shown it, the oldest makes room for
the newest. When a replica goes, its program is ended at once. The sandbox enforces memory, processor and the size of
files as everywhere; time, calls and values are limited by the replica.
"""

from __future__ import annotations

import hmac
import logging
import ssl
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import ByteSendStream, ByteStream, SocketAttribute, SocketListener, SocketStream, TaskGroup
from anyio.streams.tls import TLSStream

from codemode_server import __version__
from codemode_server.config.settings import LimitSettings
from codemode_server.domain.errors import CodemodeError, LimitExceeded, SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import checked_name
from codemode_server.processes.stream_readers import FrameReader, framed
from codemode_server.sandbox import frames
from codemode_server.sandbox.backend_selection import choose
from codemode_server.sandbox.backends.remote.link import BEAT_SECONDS, Link, LinkLost
from codemode_server.sandbox.backends.remote.messages import (
    MAX_TOKEN_BYTES,
    NODE_PATIENCE_S,
    Ended,
    EndError,
    NodeState,
    RemoteProgram,
    Request,
    parsed,
)
from codemode_server.sandbox.channel import Channel
from codemode_server.sandbox.contract import Ending, HostApi, Outcome, Program, ProgramError, SandboxBackend
from codemode_server.sandbox.registry import Announce, NodeOptions, SandboxSettings

_log = logging.getLogger(__name__)
_ADMISSION_SECONDS = 5.0
_MAX_STRANGERS = 64
_MAX_CONNECTIONS_PER_PROGRAM = 8
_BACKLOG = 256
_ACCEPT_PAUSE_S = 0.1
_MAX_FRAME_BYTES = 2**31
_DONE = b'{"op":"done"'


@dataclass(slots=True)
class _Passage:
    """The way to the replica, for a program and each sandbox that is tried for it."""

    link: Link
    ready: NodeState
    """What the replica gets once there is a sandbox."""
    frames: FrameReader
    first: bytes = b""
    """The frame with the program; empty while the replica has been asked for none."""

    async def program(self) -> bytes:
        if not self.first:
            await self.link.tell(self.ready.model_dump())
            self.first = framed(await self.frames.read(_MAX_FRAME_BYTES))
        return self.first


class Relay(Channel):
    """In place of the `Channel`, which is at the replica: passes whole frames on, and sees of them whether they are the
    last."""

    def __init__(
        self,
        passage: _Passage,
        reader: FrameReader,
        stream: ByteSendStream,
        program: Program,
        host_api: HostApi,
        signal: bytes,
    ) -> None:
        super().__init__(reader, stream, program, host_api, signal)
        self._passage = passage

    async def _first_frame(self) -> bytes:
        return await self._passage.program()

    def _begin(self) -> None:
        self._has_begun = True
        self._timer.deadline = float("inf")

    async def _read_frames(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._pass_to_guest)
        longest = frames.longest_frame(self._limits)
        while True:
            frame = await self._reader.read(longest if self._has_begun else 0)
            if not self._has_begun:
                self._begin()
                continue
            await self._passage.link.send(framed(frame))
            if frame.startswith(_DONE):
                self._done = frames.Done(op="done", value_form="none", size=0)
                self._ended = (Ending.RETURNED, None)
                return

    async def _pass_to_guest(self) -> None:
        sent = anyio.Event()
        sent.set()
        try:
            while True:
                await self._send(framed(await self._passage.frames.read(_MAX_FRAME_BYTES)), sent)
        except anyio.EndOfStream:  # the replica is gone: this run is being cancelled
            await anyio.sleep_forever()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the guest has ended; its last frames, which may not be read yet, say how


class Node:
    """Serves replicas with the sandboxes of a backend."""

    def __init__(self, options: NodeOptions, backend: SandboxBackend) -> None:
        self._options = options
        self._token = options.token.encode()
        self._tls = None
        if options.certificate is not None:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(options.certificate, options.key)
        self._backend = backend
        self._strangers: deque[anyio.CancelScope] = deque()
        """Connections that have not shown the token, the oldest first."""
        self._links: set[Link] = set()
        self._busy = 0

    async def serve(self, listeners: Sequence[SocketListener]) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._backend.tend)
            for listener in listeners:
                tasks.start_soon(self._accept, listener, tasks)
            while True:
                await anyio.sleep(BEAT_SECONDS)
                for link in self._links:
                    tasks.start_soon(link.beat)

    async def _accept(self, listener: SocketListener, tasks: TaskGroup) -> None:
        while True:
            try:
                stream: SocketStream = await listener.accept()
            except OSError:  # too many open files, or a connection that was reset already
                await anyio.sleep(_ACCEPT_PAUSE_S)
            else:
                tasks.start_soon(self._serve, stream)

    async def _serve(self, stream: SocketStream) -> None:
        try:
            if (link := await self._admitted(stream)) is not None:
                await self._answer(link)
        except (LinkLost, anyio.BrokenResourceError):
            pass
        except Exception:  # noqa: BLE001 - it ends one connection, not the node
            _log.exception("internal error")
        finally:
            await anyio.aclose_forcefully(stream)

    async def _admitted(self, stream: SocketStream) -> Link | None:
        """The connection of a replica, which has shown the token; None for anybody else."""
        if len(self._links) >= self._options.programs * _MAX_CONNECTIONS_PER_PROGRAM:
            return None
        with anyio.move_on_after(_ADMISSION_SECONDS) as scope:
            self._strangers.append(scope)
            if len(self._strangers) > _MAX_STRANGERS:
                self._strangers.popleft().cancel()
            try:
                link = Link(await self._encrypted(stream), NODE_PATIENCE_S)
                if hmac.compare_digest(await link.hear_bytes(MAX_TOKEN_BYTES), self._token):
                    return link
                await link.tell(self._state(problem="the token is not that of the node").model_dump())
            except (OSError, anyio.EndOfStream):  # no TLS
                pass
            finally:
                if scope in self._strangers:
                    self._strangers.remove(scope)
        return None

    async def _encrypted(self, stream: SocketStream) -> ByteStream:
        if self._tls is None:
            return stream
        return await TLSStream.wrap(stream, server_side=True, ssl_context=self._tls, standard_compatible=False)

    async def _answer(self, link: Link) -> None:
        """Answer the one request of a connection, and wait until the replica closes it."""
        self._links.add(link)
        try:
            request = parsed(Request, await link.hear())
            program = request.program
            if request.version != __version__:
                problem = f"it runs codemode-server {__version__}, and this is {request.version[:50]}"
                await link.tell(self._state(problem=problem).model_dump())
            elif program is None:
                await link.tell(self._state(has_workspace=self._options.workspaces is not None).model_dump())
            elif self._busy >= self._options.programs:
                problem = f"it runs {self._busy} programs already"
                await link.tell(self._state(problem=problem, is_temporary=True).model_dump())
            elif program.level is IsolationLevel.MICROVM and self._backend.level is not program.level:
                await link.tell(self._state(problem="it has no microVMs").model_dump())
            else:
                await self._run(link, program)
            await link.hear()
        finally:
            self._links.discard(link)

    def _state(self, **fields: object) -> NodeState:
        known = {"level": self._backend.level, "busy": self._busy, "programs": self._options.programs}
        importable = self._backend.importable
        modules = None if importable is None else sorted(importable)
        return NodeState.model_validate({**known, "importable": modules, **fields})

    async def _run(self, link: Link, asked: RemoteProgram) -> None:
        self._busy += 1
        passage = None
        try:
            workspace = self._workspace(asked)
            ready = NodeState(level=self._backend.level, has_workspace=workspace is not None)
            passage = _Passage(link, ready, FrameReader(link))
            with anyio.CancelScope() as scope:
                link.on_end = scope.cancel
                # Its frames are answered by the replica's `HostApi`.
                outcome = await self._backend.run(self._program(asked, workspace, passage), cast("HostApi", None))
            if scope.cancelled_caught:
                outcome = Outcome(Ending.DIED)  # the replica has ended it, or is gone
        except CodemodeError as error:
            setting = error.setting if isinstance(error, LimitExceeded) else None
            if passage is None or not passage.first:
                is_temporary = isinstance(error, SandboxUnavailable) and error.is_temporary
                state = self._state(problem=str(error)[:2_000], setting=setting, is_temporary=is_temporary)
                await link.tell(state.model_dump())
                return
            outcome = Outcome(Ending.DIED, error=ProgramError(type(error).__name__, str(error), setting=setting))
        finally:
            self._busy -= 1
        end_error = None
        if (it := outcome.error) is not None:
            end_error = EndError(type=it.type, message=it.message, setting=it.setting)
        await link.tell(Ended(ending=outcome.ending, error=end_error).model_dump())

    def _program(self, asked: RemoteProgram, workspace: Path | None, passage: _Passage) -> Program:
        return Program(
            ExecutionId(asked.execution_id),
            "",
            asked.limits,
            workspace,
            session_id=asked.session_id,
            is_last=asked.is_last,
            channel=partial(Relay, passage),
        )

    def _workspace(self, asked: RemoteProgram) -> Path | None:
        """The folder of a program; None without shared folders. Raises `SandboxUnavailable` if it is not there."""
        root, name = self._options.workspaces, asked.workspace
        if root is None or name is None:
            return None
        try:
            folder = root / checked_name(name)  # so there is nothing but one name in it
            if stat.S_ISDIR(folder.lstat().st_mode):
                return folder
            reason = "it is no folder"
        except (OSError, ValueError) as error:
            reason = str(error)
        raise SandboxUnavailable(
            f"the workspace {name[:80]!r} is not in the node's `--workspaces`: {reason}",
            "mount the folder `workspaces` of the replicas' state folder there",
        )


async def serve(options: NodeOptions, announce: Announce) -> None:
    """Until cancelled. Raises `SandboxUnavailable`, `OSError`: the port can't be opened, or a file can't be read."""
    settings = SandboxSettings(backend=options.backend, warm=options.warm)
    multi = await anyio.create_tcp_listener(local_host=options.host, local_port=options.port, backlog=_BACKLOG)
    async with multi:
        choice = await choose(settings, LimitSettings(), None, announce)
        try:
            node = Node(options, choice.backend)
            port = multi.extra(SocketAttribute.local_port)  # noqa: S610 - no SQL
            encrypted = "TLS" if options.certificate else "no TLS"
            announce(
                f"node on {options.host}:{port}, {encrypted}: {options.programs} programs in {choice.backend.name}"
            )
            await node.serve(cast("Sequence[SocketListener]", multi.listeners))
        finally:
            with anyio.CancelScope(shield=True):
                await choice.backend.aclose()
