"""The replica's end: chooses a node for each program, and runs the program's `Channel` over a connection to it."""

from __future__ import annotations

import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from codemode_server import __version__
from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.backends.remote.link import (
    Link,
    LinkLost,
    NodeState,
    ProgramEnd,
    Request,
    parsed,
    send_heartbeats,
)
from codemode_server.sandbox.channel import Channel, NotBegun
from codemode_server.sandbox.contract import Ending, HostApi, Outcome, Program, SandboxCount, with_reason
from codemode_server.sandbox.importable import IN_WASM
from codemode_server.sandbox.packages.installed import NO_PACKAGES, Packages
from codemode_server.sandbox.quota import Quota, Quotas, ended_itself
from codemode_server.sandbox.registry import Check, Diagnosis, SandboxSettings
from codemode_server.support.setting_types import LOOPBACK_HOSTS

_TIMEOUT_S = 4.0
_CONNECT_SECONDS = 3.0
_END_SECONDS = 5.0
"""How long a node may take to end a program, and to bring its files within the quota."""
_STOP_SECONDS = 1.0
"""The same for a program that the replica ends. A node whose program reads nothing may not read either; it ends the
program once the connection is closed."""
_BUSY_SECONDS = 10.0
"""How long a program waits for a place while nodes are busy."""
_RETRY_SECONDS = 0.2
"""After how long the nodes are asked again at the latest: places are also freed by programs of other replicas."""
_LOOKED_UP_SECONDS = 5.0
"""How long the addresses of a node's name are used before it is looked up again."""
_AVOIDED_SECONDS = 30.0
"""How long a node that refused a program, although it was not busy, is tried after the others."""
_NO_WORKSPACE = (
    "this program has no /workspace: it ran on a sandbox node that does not have that folder; return the data, or use "
    "/tmp, whose files end with the program"
)


class _Refused(Exception):
    """Raised when a node can't be used or refuses the program, nothing of which has run."""

    def __init__(self, reason: str, *, is_busy: bool = False) -> None:
        super().__init__(reason)
        self.is_busy = is_busy


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    """The host name in the configuration, for which the certificate must be issued."""
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}:{self.port}" + (f" ({self.address})" if self.name != self.address else "")


class RemoteBackend:
    """Runs programs on the nodes of `sandbox.nodes`. `tend` sends the heartbeats, without which nodes end programs."""

    name = "remote"

    def __init__(self, settings: SandboxSettings, workspace: Path | None, packages: Packages = NO_PACKAGES) -> None:
        self._settings = settings
        self._workspaces = workspace.parent if workspace is not None else None
        self.level = IsolationLevel.MICROVM
        self.importable: frozenset[str] | None = None
        self.packages = packages
        try:
            self._tls = ssl.create_default_context(cafile=settings.node_ca)
        except OSError as error:
            raise SandboxUnavailable(f"sandbox.node_ca can't be used: {_reason(error)}") from error
        self._links: set[Link] = set()
        self._waiting = anyio.Lock()
        """Held while one of the programs that wait for a place does so, until it asks the nodes again: however many
        wait, the nodes are asked no more often."""
        self._has_place = anyio.Event()
        """Set when a program of this replica has ended, until a waiting one asks the nodes again."""
        self._running: Counter[_Node] = Counter()
        self._known: list[_Node] = []
        self._looked_up_until = 0.0
        self._avoided_until: dict[_Node, float] = {}

    @property
    def count(self) -> SandboxCount:
        return SandboxCount(idle=0, busy=self._running.total())

    async def start(self) -> None:
        found = await self.states()
        levels = {state.level for state in found.values() if isinstance(state, NodeState)}
        if self._settings.require == "microvm":
            levels.discard(IsolationLevel.WASM)
        if not levels:
            problems = [f"{node}: {state}" for node, state in found.items() if isinstance(state, _Refused)]
            reason = f"no sandbox node can be used: {'; '.join(problems) or 'none has microVMs'}"
            raise SandboxUnavailable(reason, "start nodes with `codemode-server node`", is_temporary=True)
        if IsolationLevel.WASM in levels:
            self.level, self.importable = IsolationLevel.WASM, IN_WASM

    async def tend(self) -> None:
        await send_heartbeats(self._links)

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        until = anyio.current_time() + _BUSY_SECONDS
        while True:
            refusals: dict[_Node, _Refused] = {}
            for node in await self._in_order(program.session_id):
                self._running[node] += 1
                try:
                    outcome = await self._run_on(node, program, host_api)
                except _Refused as error:
                    refusals[node] = error
                    if not error.is_busy:
                        self._avoided_until[node] = anyio.current_time() + _AVOIDED_SECONDS
                else:
                    self._has_place.set()
                    return outcome
                finally:
                    self._running[node] -= 1
            if anyio.current_time() > until or not any(it.is_busy for it in refusals.values()):
                problems = "; ".join(f"{node}: {error}" for node, error in refusals.items())
                reason = f"no sandbox node takes the program: {problems}"
                raise SandboxUnavailable(reason, "`codemode-server doctor` shows the nodes", is_temporary=True)
            async with self._waiting:
                with anyio.move_on_after(_RETRY_SECONDS):
                    await self._has_place.wait()
                self._has_place = anyio.Event()

    async def aclose(self) -> None:
        for link in list(self._links):
            await link.aclose()

    async def states(self) -> dict[_Node, NodeState | _Refused]:
        """The state of each node, or why it is unknown."""
        found: dict[_Node, NodeState | _Refused] = {}
        for node in await self._nodes():
            try:
                async with self._connected(node, Request(version=__version__)) as (_, state):
                    found[node] = state
            except _Refused as error:
                found[node] = error
        return found

    async def _nodes(self) -> list[_Node]:
        """All addresses of the nodes, in the order of the configuration; names are looked up every few seconds."""
        if anyio.current_time() < self._looked_up_until:
            return self._known
        nodes = []
        for host, port in (node.rsplit(":", 1) for node in self._settings.nodes):
            name = host.strip("[]")  # around an IPv6 address
            addresses = {name}
            with suppress(OSError):  # connecting says why
                addresses = {str(it[4][0]) for it in await anyio.getaddrinfo(name, port)}
            nodes += [_Node(name, address, int(port)) for address in sorted(addresses)]
        self._known, self._looked_up_until = nodes, anyio.current_time() + _LOOKED_UP_SECONDS
        return nodes

    async def _in_order(self, session_id: str) -> list[_Node]:
        """The nodes in the order in which to try them: the one with the fewest programs of this replica first. Where
        these are equal, the order is always the same for one session, which may have a microVM on its first node."""

        def rank(node: _Node) -> tuple[bool, int, int]:
            is_avoided = self._avoided_until.get(node, 0) > anyio.current_time()
            return is_avoided, self._running[node], zlib.crc32(f"{session_id} {node}".encode())

        return sorted(await self._nodes(), key=rank)

    @asynccontextmanager
    async def _connected(self, node: _Node, request: Request) -> AsyncIterator[tuple[Link, NodeState]]:
        """A connection to a node that has accepted the request. Raises `_Refused`."""
        link = None
        try:
            try:
                with anyio.fail_after(_CONNECT_SECONDS):
                    stream: ByteStream = await anyio.connect_tcp(node.address, node.port)
                    link = Link(stream, _TIMEOUT_S)
                    if node.name not in LOOPBACK_HOSTS or self._settings.node_ca is not None:
                        encrypted = TLSStream.wrap(
                            stream, hostname=node.name, ssl_context=self._tls, standard_compatible=False
                        )
                        link = Link(await encrypted, _TIMEOUT_S)
                    await link.send_message((self._settings.node_token or "").encode())
                    await link.send_message(request)
                    state = parsed(NodeState, await link.receive_message())
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, LinkLost) as error:
                raise _Refused(_reason(error)) from error
            if state.problem:
                raise _Refused(state.problem, is_busy=state.is_busy)
            self._links.add(link)
            yield link, state
        finally:
            if link is not None:
                self._links.discard(link)
                await link.aclose()

    async def _run_on(self, node: _Node, program: Program, host_api: HostApi) -> Outcome:
        """Raises `_Refused` if nothing of the program has run."""
        folder = program.workspace
        is_shared = folder is not None and folder.parent == self._workspaces  # a dry run's copy is elsewhere
        request = Request(
            version=__version__,
            limits=program.limits,
            workspace=folder.name if folder is not None and is_shared else None,
            session_id=program.session_id,
            is_last=program.is_last,
        )
        async with self._connected(node, request) as (link, state):
            if self.level is IsolationLevel.MICROVM and state.level is not self.level:
                raise _Refused("it has no microVMs")
            channel = Channel(link.frames, link, program, host_api)
            try:
                outcome = await channel.run()
            except NotBegun:
                raise _Refused("the connection ended before the program had begun") from None
            finally:
                await _end(link, is_clean=channel.is_clean, is_gone=channel.is_gone)
        outcome = _completed(outcome, channel, program, link)
        lacks_workspace = folder is not None and not state.has_workspace
        if lacks_workspace and outcome.error is not None and "/workspace" in outcome.error.message:
            return replace(outcome, error=replace(outcome.error, hint=_NO_WORKSPACE))
        return outcome


async def _end(link: Link, *, is_clean: bool, is_gone: bool) -> None:
    """Ask the node to end the program, unless it ended by itself, and wait until nothing of it runs any more."""
    seconds = _END_SECONDS if is_clean or is_gone else _STOP_SECONDS
    with anyio.CancelScope(shield=True, deadline=anyio.current_time() + seconds):
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            if not is_clean:
                await link.send_message(b"")
            while True:
                await link.receive()


def _completed(outcome: Outcome, channel: Channel, program: Program, link: Link) -> Outcome:
    """The outcome with what only the node knows: the limits that it enforces, and why a sandbox died. Raises `_Refused`
    if the program has not begun."""
    try:
        end = parsed(ProgramEnd, link.last_message or b"")
    except LinkLost:
        if not channel.is_gone:
            return outcome
        return with_reason(outcome, program.limits, f"the sandbox node: {link.problem}", is_out_of_memory=False)
    error = end.outcome.error
    if channel.is_gone and not end.has_begun and end.outcome.ending is Ending.DIED:
        raise _Refused(error.message if error is not None else "the program has not begun")
    if error is not None and (channel.is_gone or ended_itself(outcome)):
        error = replace(error, line=channel.line)
        return replace(outcome, ending=end.outcome.ending, value=None, value_form="none", error=error)
    return Quota(program, Quotas()).judged(outcome)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error.__cause__, OSError):  # anyio's own says nothing
        error = error.__cause__
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or "it closed the connection"


async def diagnose(settings: SandboxSettings) -> Diagnosis:
    """Checks whether each node can be used."""
    try:
        found = await RemoteBackend(settings, None).states()
    except SandboxUnavailable as error:
        return Diagnosis((Check("nodes", "failed", error.reason),))
    checks, levels = [], set()
    for node, state in found.items():
        if isinstance(state, _Refused):
            checks.append(Check(f"node {node}", "failed", str(state)))
        else:
            levels.add(state.level.value)
            files = "with" if state.has_workspace else "without"
            checks.append(Check(f"node {node}", "ok", f"{state.level.value}, {files} a shared workspace"))
    answering = sum(check.state == "ok" for check in checks)
    place = f"{' or '.join(sorted(levels))} on {answering} of {len(checks)} nodes" if levels else ""
    return Diagnosis((*checks,), place)
