"""All upstreams: starts, stops and restarts their connections, and routes calls to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from codemode_server.background_tasks import OwnsTasks
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import UnknownTool, UpstreamUnavailable
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.tools import UpstreamListing, UpstreamState
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.sandbox.contract import Reply
from codemode_server.settings import ServerSettings
from codemode_server.upstreams._connection_deps import ConnectionDeps, Timings
from codemode_server.upstreams.auth.sign_ins import Show, SignIns
from codemode_server.upstreams.cache import ListingCache
from codemode_server.upstreams.connection import Connection
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import checked, resource_reply, to_reply


@dataclass(slots=True)
class _Owner:
    """A connection's running owner task."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class UpstreamPool(OwnsTasks):
    """The upstreams of `upstream.yaml`. Nothing of them is started before `connect`.

    `invalid` names the servers whose entries can't be used, each with the reason: they are listed and never started.
    `on_change` is called on the event loop after any change of `listings`; it has to be quick. The redactor of
    `config` is applied to the tools and descriptions of upstreams. Without
    `sign_ins`, requests carry only the headers that are set.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerSettings],
        cache: ListingCache,
        on_change: Callable[[], None] = lambda: None,
        *,
        config: LiveConfig | None = None,
        timings: Timings | None = None,
        invalid: Mapping[str, str] | None = None,
        sign_ins: SignIns | None = None,
    ) -> None:
        self._on_change = on_change
        self._reaper = Reaper()
        config, timings = config or LiveConfig(), timings or Timings()
        self._deps = ConnectionDeps(cache, self._reaper, self._changed, config, timings, sign_ins=sign_ins)
        self._connections = {name: Connection(name, settings, self._deps) for name, settings in servers.items()}
        self._invalid = dict(invalid or {})
        self._owners: dict[str, _Owner] = {}
        self._is_connecting = False
        self._any_change = anyio.Event()
        self._reconfiguring = anyio.Lock()

    async def _release(self) -> None:
        await self._reaper.aclose()

    def connect(self) -> None:
        """Start to connect every upstream, in the background. Called once the host has its handshake."""
        self._is_connecting = True
        for name in self._connections:
            self._start(name)

    def declare(self, features: frozenset[Feature]) -> None:
        """A host with these features has connected: servers are told that they can use them."""
        if not features <= self._deps.host_features:
            self._deps.host_features |= features
            for connection in self._connections.values():
                connection.take_host_features()

    def listings(self) -> tuple[UpstreamListing, ...]:
        """Every upstream's state, in the order of the settings; one that is not ready has the tools of the last run."""
        return (
            *(connection.listing for connection in self._connections.values()),
            *(UpstreamListing(name, UpstreamState.INVALID, error=why) for name, why in self._invalid.items()),
        )

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
        definition: str = "",
    ) -> Reply:
        """Call a tool, both by their raw names. Cancelling this cancels the call at the upstream.

        What the upstream reports meanwhile is written to `progress`. `revision`: that of the configuration under which
        the call was allowed; None: any. `definition`: the digest of the tool's definition at that time; empty: any.

        Raises:
            UnknownTool: no such server.
            DecisionOutdated: the configuration has another revision now, or the tool another definition; nothing was
                sent.
            ToolFailed, ResultTooLarge, ResultTooDeep, CallTimedOut, UpstreamUnavailable: as their docstrings say.
        """
        connection = self._connection(server)
        declares = connection.declares_output(tool)
        read = partial(to_reply, declares_output=declares, redactor=self._deps.redactor())
        return await connection.requests.call_tool(tool, arguments, read, progress, revision, definition)

    async def call_raw(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
        definition: str = "",
    ) -> dict[str, Any]:
        """As `call_tool`, but the result as the upstream sent it; an `isError` in it is not raised."""
        requests = self._connection(server).requests
        return await requests.call_tool(tool, arguments, checked, progress, revision, definition)

    async def read_resource(
        self, server: str, uri: str, *, progress: CallProgress | None = None, revision: int | None = None
    ) -> Reply:
        """Read a resource of a server by its raw name; raises as `call_tool` does."""
        read = partial(resource_reply, uri, redactor=self._deps.redactor())
        return await self._connection(server).requests.read_resource(uri, read, progress, revision)

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
    ) -> dict[str, Any]:
        """A prompt of a server, by its raw names, as it came; raises as `call_tool` does."""
        return await self._connection(server).requests.get_prompt(name, arguments, checked, progress, revision)

    async def complete(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        """What a server, by its raw name, proposes for an argument of a prompt; as `Requests.complete`."""
        return await self._connection(server).requests.complete(params)

    def servers_with_roots(self, session_id: str) -> list[str]:
        """The raw names of the servers that have the roots of this session's host."""
        return [name for name, connection in self._connections.items() if connection.requests.has_roots_of(session_id)]

    async def change_roots(self, server: str, answer: dict[str, Any]) -> None:
        """Tell a server, by its raw name, that roots have changed; it may ask once for this answer, in bounded time."""
        if (connection := self._connections.get(server)) is not None:
            await connection.requests.change_roots(answer)

    async def wait_completed(self, server: str, elicitation_ids: frozenset[str]) -> None:
        """Return once a server, by its raw name, has reported all of these elicitations as completed, which may never
        be, or if its protocol has no such report."""
        await self._connection(server).requests.wait_completed(elicitation_ids)

    async def sign_in(self, server: str, show: Show) -> None:
        """Let the person sign in to a server that asks for it, by its raw name, and wait until it is connected.

        Raises:
            UnknownTool, UpstreamUnavailable: there is no such server, or it is off.
            CodemodeError, OSError: as `SignIns.sign_in` says.
        """
        await self._connection(server).sign_in(show)

    def _connection(self, server: str) -> Connection:
        connection = self._connections.get(server)
        if connection is None and server in self._invalid:
            raise UpstreamUnavailable(f"server {server!r} is off: {self._invalid[server]}")
        if connection is None:
            raise UnknownTool(f"no server {server!r}; there are {', '.join(map(repr, self._connections)) or 'none'}")
        return connection

    async def reconfigure(
        self, servers: Mapping[str, ServerSettings], invalid: Mapping[str, str] | None = None
    ) -> None:
        """Apply new settings: stop removed servers, start new ones, restart those that are reached in another way now.

        Returns when removed servers have stopped; new connections are made in the background.
        """
        async with self._reconfiguring:
            before = self._connections
            kept = {name: before[name] for name in servers if name in before and before[name].adjust(servers[name])}
            stopped = [name for name in before if name not in kept]
            async with anyio.create_task_group() as stopping:
                for name in stopped:
                    stopping.start_soon(self._stop, name)
            self._connections = {
                name: kept.get(name) or Connection(name, settings, self._deps) for name, settings in servers.items()
            }
            for name in before.keys() & self._connections.keys() - kept.keys():
                self._connections[name].inherit_state_from(before[name])
            self._invalid = dict(invalid or {})
            if self._is_connecting:
                for name in servers:
                    self._start(name)
        self._changed()

    async def wait_settled(self, timeout_s: float) -> bool:
        """Wait until every upstream is connected or has failed; False if that took too long."""
        with anyio.move_on_after(timeout_s):
            while not all(connection.is_settled for connection in self._connections.values()):
                await self._any_change.wait()
            return True
        return False

    @property
    def is_expecting_tools(self) -> bool:
        """Whether an upstream that was never listed is still connecting."""
        return any(not it.is_settled and not it.listing.tools for it in self._connections.values())

    def _start(self, name: str) -> None:
        if self._tasks is not None and name not in self._owners:
            self._owners[name] = _Owner()
            self._tasks.start_soon(self._own, self._connections[name], self._owners[name], name=f"upstream {name}")

    async def _own(self, connection: Connection, owner: _Owner) -> None:
        try:
            with owner.scope:
                await connection.run()
        finally:
            owner.ended.set()

    async def _stop(self, name: str) -> None:
        owner = self._owners.pop(name, None)
        if owner is not None:
            owner.scope.cancel()
            await owner.ended.wait()

    def _changed(self) -> None:
        changed, self._any_change = self._any_change, anyio.Event()
        changed.set()
        self._on_change()
