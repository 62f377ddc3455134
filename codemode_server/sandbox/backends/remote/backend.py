"""The replica's end: chooses a node for each program, and runs the program's `Channel` over a connection to it."""

from __future__ import annotations

import ipaddress
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
from codemode_server.domain.errors import LimitExceeded, SandboxUnavailable
from codemode_server.domain.executions import IsolationLevel
from codemode_server.processes.stream_readers import FrameReader
from codemode_server.sandbox.backends.remote.link import BEAT_SECONDS, Link, LinkLost
from codemode_server.sandbox.backends.remote.messages import (
    REPLICA_PATIENCE_S,
    Ended,
    NodeState,
    RemoteProgram,
    Request,
    parsed,
)
from codemode_server.sandbox.channel import Channel, NotBegun
from codemode_server.sandbox.contract import Ending, HostApi, Outcome, Program, ProgramError, SandboxCount, with_reason
from codemode_server.sandbox.quota import Quota, Quotas, ended_itself
from codemode_server.sandbox.registry import Check, Diagnosis, SandboxSettings, address_of
from codemode_server.support.setting_types import LOOPBACK_HOSTS

_CONNECT_SECONDS = 3.0
_READY_SECONDS = 90.0
_END_SECONDS = 5.0
"""How long a node may take to end a program, and to bring its files within the quota."""
_WAIT_SECONDS = 10.0
"""How long nodes are asked that are full or can't be reached."""
_PAUSE_S = 0.25
_AVOIDED_SECONDS = 30.0
"""How long a node that took no program, although it was not busy, is tried after the others."""
_NO_WORKSPACE = (
    "this program has no /workspace: it ran on a sandbox node that does not have that folder; return the data, or use "
    "/tmp, whose files end with the program"
)


class _Refused(Exception):
    """Raised when a node does not take a program, of which nothing has run."""

    def __init__(self, reason: str, *, may_retry: bool = False, is_busy: bool = False) -> None:
        super().__init__(reason)
        self.may_retry = may_retry
        self.is_busy = is_busy


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    """The host as it is configured, which the certificate has to be for."""
    address: str
    port: int

    def __str__(self) -> str:
        host = self.name if self.name == self.address else f"{self.name} ({self.address})"
        return f"{host}, port {self.port}"


class RemoteBackend:
    """Runs programs on the nodes of `sandbox.nodes`. `tend` must run as long as it is used; it sends heartbeats."""

    name = "remote"

    def __init__(self, settings: SandboxSettings, workspace: Path | None) -> None:
        self._settings = settings
        self._root = workspace.parent if workspace is not None else None
        """The folder of all workspaces, as `--workspaces` of a node."""
        self.level = IsolationLevel.MICROVM
        self.importable: frozenset[str] | None = None
        self._tls = tls_context(settings.node_ca)
        self._links: set[Link] = set()
        self._running: Counter[_Node] = Counter()
        self._avoided: dict[_Node, float] = {}
        """Until when a node is tried after the others."""

    @property
    def count(self) -> SandboxCount:
        return SandboxCount(idle=0, busy=self._running.total())

    async def start(self) -> None:
        found = await self.look()
        states = [state for state in found.values() if not isinstance(state, _Refused)]
        if self._settings.require == "microvm":
            states = [state for state in states if state.level is IsolationLevel.MICROVM]
        if not states:
            problems = "; ".join(f"{node}: {state}" for node, state in found.items() if isinstance(state, _Refused))
            raise SandboxUnavailable(
                f"no sandbox node can be used: {problems or 'none has microVMs'}",
                "start nodes with `codemode-server node`",
                is_temporary=True,
            )
        self.level = min((state.level for state in states), key=[IsolationLevel.WASM, IsolationLevel.MICROVM].index)
        modules = next(state.importable for state in states if state.level is self.level)
        self.importable = None if modules is None else frozenset(modules)

    async def tend(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(BEAT_SECONDS)
                for link in self._links:
                    tasks.start_soon(link.beat)

    async def run(self, program: Program, host_api: HostApi) -> Outcome:
        until = anyio.current_time() + _WAIT_SECONDS
        while True:
            problems, may_retry = dict[_Node, str](), False
            for node in await self._in_order(program.session_id):
                self._running[node] += 1
                try:
                    return await self._run_on(node, program, host_api)
                except _Refused as error:
                    problems[node], may_retry = str(error), may_retry or error.may_retry
                    if not error.is_busy:
                        self._avoided[node] = anyio.current_time() + _AVOIDED_SECONDS
                finally:
                    self._running[node] -= 1
            if not may_retry or anyio.current_time() > until:
                why = "; ".join(f"{node}: {problem}" for node, problem in problems.items())
                raise SandboxUnavailable(
                    f"no sandbox node takes the program: {why}",
                    "`codemode-server doctor` shows the nodes",
                    is_temporary=True,
                )
            await anyio.sleep(_PAUSE_S)

    async def aclose(self) -> None:
        for link in list(self._links):
            await link.aclose()

    async def look(self) -> dict[_Node, NodeState | _Refused]:
        """How each node is, or why that can't be known."""
        found: dict[_Node, NodeState | _Refused] = {}

        async def ask(node: _Node) -> None:
            try:
                async with self._connected(node) as link:
                    found[node] = await _asked(link, Request(version=__version__))
            except _Refused as error:
                found[node] = error

        async with anyio.create_task_group() as tasks:
            for node in await self._nodes():
                found[node] = _Refused("it was not asked")  # in the order of the configuration
                tasks.start_soon(ask, node)
        return found

    async def _nodes(self) -> list[_Node]:
        """All addresses of the nodes, in the order of the configuration; names are looked up each time."""
        nodes = []
        for host, port in map(address_of, self._settings.nodes):
            addresses = [host]
            if not _is_address(host):
                with suppress(OSError):  # connecting says why
                    addresses = sorted({str(it[4][0]) for it in await anyio.getaddrinfo(host, port)})
            nodes += [_Node(host, address, port) for address in addresses]
        return nodes

    async def _in_order(self, session_id: str) -> list[_Node]:
        """The node with the fewest programs of ours first; among these the same one for a session, which may have a
        microVM there."""
        now = anyio.current_time()

        def rank(node: _Node) -> tuple[bool, int, int]:
            return self._avoided.get(node, 0) > now, self._running[node], zlib.crc32(f"{session_id} {node}".encode())

        return sorted(await self._nodes(), key=rank)

    @asynccontextmanager
    async def _connected(self, node: _Node) -> AsyncIterator[Link]:
        """A connection that has shown the token. Raises `_Refused`."""
        is_plain = node.name in LOOPBACK_HOSTS and self._settings.node_ca is None
        link = None
        try:
            try:
                with anyio.fail_after(_CONNECT_SECONDS):
                    stream: ByteStream = await anyio.connect_tcp(node.address, node.port)
                    link = Link(stream, REPLICA_PATIENCE_S)  # so that it is closed
                    if not is_plain:
                        stream = await TLSStream.wrap(
                            stream, hostname=node.name, ssl_context=self._tls, standard_compatible=False
                        )
                        link = Link(stream, REPLICA_PATIENCE_S)
                    await link.tell((self._settings.node_token or "").encode())
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
                raise _Refused(_reason(error), may_retry=not isinstance(error, ssl.SSLError)) from error
            self._links.add(link)
            yield link
        finally:
            if link is not None:
                self._links.discard(link)
                await link.aclose()

    async def _run_on(self, node: _Node, program: Program, host_api: HostApi) -> Outcome:
        """Raises `_Refused` if nothing of the program has run."""
        async with self._connected(node) as link:
            state = await _asked(link, Request(version=__version__, program=self._request(program)))
            if state.setting is not None:
                raise LimitExceeded(state.problem, setting=state.setting)
            channel = Channel(FrameReader(link), link, program, host_api)
            try:
                outcome = await channel.run()
            except NotBegun:
                raise _Refused("the connection ended before the program had begun", may_retry=True) from None
            finally:
                await _ended(link, is_clean=channel.is_clean)
            return self._completed(outcome, channel, program, link, state)

    def _completed(self, outcome: Outcome, channel: Channel, program: Program, link: Link, state: NodeState) -> Outcome:
        """The outcome with what the node knows of it: its limits, and why a sandbox died."""
        if channel.is_gone and link.message is None:
            return with_reason(outcome, program.limits, f"the sandbox node: {link.problem}", is_out_of_memory=False)
        try:
            ended = parsed(Ended, link.message or {})
        except LinkLost:
            ended = Ended(ending=Ending.RETURNED)
        if ended.error is not None and (channel.is_gone or ended_itself(outcome)):
            error = ProgramError(ended.error.type, ended.error.message, line=channel.line, setting=ended.error.setting)
            outcome = replace(outcome, ending=ended.ending, value=None, value_form="none", error=error)
        outcome = Quota(program, Quotas()).judged(outcome)
        lacks_workspace = not state.has_workspace and program.workspace is not None
        if outcome.error is not None and lacks_workspace and "/workspace" in outcome.error.message:
            outcome = replace(outcome, error=replace(outcome.error, hint=_NO_WORKSPACE))
        return outcome

    def _request(self, program: Program) -> RemoteProgram:
        folder = program.workspace
        return RemoteProgram(
            execution_id=program.execution_id,
            session_id=program.session_id,
            is_last=program.is_last,
            limits=program.limits,
            # A copy, as of a dry run, is elsewhere, and so not on the nodes.
            workspace=folder.name if folder is not None and folder.parent == self._root else None,
            level=self.level,
        )


def tls_context(ca: str | None) -> ssl.SSLContext:
    """Trusts that file of certificates, or those that the system trusts. Raises `SandboxUnavailable`."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise SandboxUnavailable(f"the certificates in `sandbox.node_ca` can't be read: {_reason(error)}") from error


async def _asked(link: Link, request: Request) -> NodeState:
    """The answer to a request. Raises `_Refused`."""
    try:
        with anyio.fail_after(_READY_SECONDS):
            await link.tell(request.model_dump())
            state = parsed(NodeState, await link.hear())
    except TimeoutError:
        raise _Refused("it has no sandbox ready", may_retry=True) from None
    except (LinkLost, anyio.BrokenResourceError) as error:
        raise _Refused(link.problem or str(error), may_retry=True) from error
    if state.problem and state.setting is None:
        raise _Refused(state.problem, may_retry=state.is_temporary, is_busy=state.is_temporary)
    return state


async def _ended(link: Link, *, is_clean: bool) -> None:
    """Have the node end the program, unless that is done, and wait until nothing of it runs any more; not cancelled."""
    with anyio.CancelScope(shield=True, deadline=anyio.current_time() + _END_SECONDS):
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            if not is_clean:
                await link.tell({})
            while True:
                await link.receive()


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error.__cause__, OSError):  # anyio's own says nothing
        error = error.__cause__
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or "it closed the connection"


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


async def diagnose(settings: SandboxSettings) -> Diagnosis:
    """Asks each node."""
    try:
        found = await RemoteBackend(settings, None).look()
    except SandboxUnavailable as error:
        return Diagnosis((Check("nodes", "failed", error.reason),))
    checks, levels = [], set()
    for node, state in found.items():
        if isinstance(state, _Refused):
            checks.append(Check(f"node {node}", "failed", str(state)))
            continue
        levels.add(state.level.value)
        files = "with" if state.has_workspace else "without"
        busy = f"{state.busy} of {state.programs} programs"
        checks.append(Check(f"node {node}", "ok", f"{state.level.value}, {busy}, {files} shared workspaces"))
    answering = sum(check.state == "ok" for check in checks)
    place = f"{' or '.join(sorted(levels))} on {answering} of {len(checks)} nodes" if levels else ""
    return Diagnosis((*checks,), place)
