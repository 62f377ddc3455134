"""All upstreams: starts, stops and restarts their connections, and routes calls to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from codemode_server.config.live import Caller, LiveConfig
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import UnknownTool, UpstreamUnavailable
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.tools import ANY_FORM, ResultForm, UpstreamListing, UpstreamState
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.sandbox.contract import Reply
from codemode_server.support.background_tasks import OwnsTasks
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.upstreams.auth.sign_ins import Show, SignIns
from codemode_server.upstreams.cache import ListingCache, fingerprint
from codemode_server.upstreams.connection import Connection
from codemode_server.upstreams.connection_deps import ConnectionDeps, Timings
from codemode_server.upstreams.own_connections import ConnectionKey, OwnConnections
from codemode_server.upstreams.progress import CallProgress
from codemode_server.upstreams.results import raw_reply, resource_reply, to_reply


@dataclass(slots=True)
class _Owner:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class RoutedCalls:
    """Calls over connections that `using` chooses. All names are raw ones.

    Each method takes `progress`, to which what the upstream reports meanwhile is written; `revision`, that of the
    configuration under which the call was allowed (None: any); and `definition`, the digest of the tool's definition at
    that time (empty: any). Cancelling one cancels the call at the upstream. Each raises `UnknownTool` for an unknown
    server, and as `Requests.send`."""

    def __init__(self, config: LiveConfig, using: Callable[[str], AbstractContextManager[Connection]]) -> None:
        """`using` gives the connection for a call to the server of this raw name, held while the call lasts. It raises
        `UnknownTool`, and `UpstreamUnavailable` if the entry of the server can't be used."""
        self._config = config
        self._using = using

    def turn_to_write(self, server: str) -> anyio.Semaphore | None:
        """Held by one call that may write at a time, in the order in which they ask; None if the server's settings let
        them overlap."""
        with self._using(server) as connection:
            return None if connection.settings.concurrent_writes else connection.writing

    async def call_tool(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        is_raw: bool = False,
        progress: CallProgress | None = None,
        revision: int | None = None,
        definition: str = "",
        form: ResultForm = ANY_FORM,
        needs_task: bool = False,
    ) -> Reply:
        """Call a tool, of whose results `form` is known. With `is_raw` the result is as the upstream sent it; an
        `isError` in it is not raised. `needs_task`: it can only be called as a task."""
        with self._using(server) as connection:
            lists, key = connection.block_lists, (tool, definition)
            form = replace(form, is_list=True) if key in lists else form
            read = raw_reply if is_raw else partial(to_reply, form=form, redactor=self._config.redactor)
            params: dict[str, Any] = {"name": tool, "arguments": arguments}
            if needs_task:
                params["task"] = {}
            reply = await connection.requests.send(
                "tools/call", params, f"tool {tool!r}", read, progress, revision, definition
            )
            if reply.is_block_list:
                lists.add(key)
            return reply

    async def read_resource(
        self, server: str, uri: str, *, progress: CallProgress | None = None, revision: int | None = None
    ) -> Reply:
        """Read a resource."""
        redactor = self._config.redactor
        read, what = partial(resource_reply, uri, redactor=redactor), f"the resource {redactor.head(uri, 200)!r}"
        with self._using(server) as connection:
            return await connection.requests.send("resources/read", {"uri": uri}, what, read, progress, revision)

    async def get_prompt(
        self,
        server: str,
        name: str,
        arguments: dict[str, Any],
        *,
        progress: CallProgress | None = None,
        revision: int | None = None,
    ) -> Reply:
        """A prompt, as it came."""
        params = {"name": name, "arguments": arguments}
        with self._using(server) as connection:
            return await connection.requests.send(
                "prompts/get", params, f"the prompt {name!r}", raw_reply, progress, revision
            )


class UpstreamPool(OwnsTasks, RoutedCalls):
    """The upstreams of `upstream.yaml`. Nothing of them is started before `connect`.

    `invalid` names the servers whose entries can't be used, each with the reason: they are listed and never started.
    `on_change` is called on the event loop after any change of `listings`; it has to be quick. The redactor of
    `config` is applied to the tools and descriptions of upstreams. Without `sign_ins`, requests carry only the headers
    that are set."""

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
        start_folder: Callable[[str], str] = lambda folder: folder,
    ) -> None:
        """`start_folder`: where servers start that depend on the folder of a host, for this folder of a host."""
        config, timings = config or LiveConfig(), timings or Timings()
        RoutedCalls.__init__(self, config, self._shared)
        self._on_change = on_change
        self._reaper = Reaper()
        self._deps = ConnectionDeps(cache, self._reaper, self._changed, config, timings, sign_ins=sign_ins)
        self._sign_ins = sign_ins
        self.own_connections = OwnConnections(self._deps, None if sign_ins is None else sign_ins.of)
        self._start_folder = start_folder
        self._folder = start_folder("")
        self._connections = {name: self._made(name, settings) for name, settings in servers.items()}
        self._invalid = dict(invalid or {})
        self._owners: dict[str, _Owner] = {}
        self._is_connecting = False
        self._any_change = ChangeSignal()
        self._reconfiguring = anyio.Lock()

    async def _release(self) -> None:
        await self._reaper.aclose()

    def connect(self) -> None:
        """Start to connect every upstream, in the background. Called once the host has its handshake."""
        self._is_connecting = True
        for name in self._connections:
            self._start(name)

    def declare(self, features: frozenset[Feature], folder: str = "") -> None:
        """A host with these features has connected: servers are told that they can use them. Servers that depend on
        the host's folder start in that of the first host."""
        if not self._is_connecting:
            self._folder = self._start_folder(folder)
            for connection in self._connections.values():
                connection.folder = self._folder
        if not features <= self._deps.host_features:
            self._deps.host_features |= features
            for connection in self._connections.values():
                connection.features_changed.notify()

    def listings(self) -> tuple[UpstreamListing, ...]:
        """Every upstream's state, in the order of the settings; one that is not ready has the tools of the last run."""
        return (
            *(connection.listing for connection in self._connections.values()),
            *(UpstreamListing(name, UpstreamState.INVALID, error=why) for name, why in self._invalid.items()),
        )

    def for_caller(self, caller: Caller, features: frozenset[Feature]) -> RoutedCalls:
        """The upstreams as this caller uses them, whose host has these features: with connections of its own, where
        others must not share them."""
        return RoutedCalls(self._config, partial(self._chosen, caller, features))

    @contextmanager
    def _chosen(self, caller: Caller, features: frozenset[Feature], server: str) -> Iterator[Connection]:
        shared = self._connection(server)
        runs_product = self._sign_ins is None or caller.principal.principal_id == self._sign_ins.principal
        folder = self._start_folder(caller.session.folder) if shared.settings.follows_folder else shared.folder
        key = self.own_connections.key_of(shared, caller, features, folder, runs_product=runs_product)
        if key == ConnectionKey(server):
            yield shared
            return
        with self.own_connections.using(key, shared, caller.session, features, self._tasks) as own:
            yield own

    def _made(self, name: str, settings: ServerSettings) -> Connection:
        return Connection(name, settings, self._deps, folder=self._folder)

    def _shared(self, server: str) -> AbstractContextManager[Connection]:
        return nullcontext(self._connections.get(server) or self._connection(server))

    async def sign_in(self, server: str, show: Show) -> None:
        """Let the person sign in to a server that asks for it, by its raw name, and wait until it is connected. Raises
        `UnknownTool`, `UpstreamUnavailable`: there is no such server, or it is off; and as `SignIns.sign_in`."""
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
        Returns when removed servers have stopped; new connections are made in the background."""
        async with self._reconfiguring:
            await anyio.to_thread.run_sync(self._read_listings, servers)
            before = self._connections
            kept = {name: before[name] for name in servers if name in before and before[name].adjust(servers[name])}
            stopped = [name for name in before if name not in kept]
            # Before anything is waited for: a call that comes meanwhile must not wait for a connection that ends.
            self._connections = {
                name: kept.get(name) or self._made(name, settings) for name, settings in servers.items()
            }
            for name in before.keys() & self._connections.keys() - kept.keys():
                self._connections[name].requests.last_session = before[name].requests.last_session
            self._invalid = dict(invalid or {})
            async with anyio.create_task_group() as stopping:
                stopping.start_soon(self.own_connections.reconfigure, servers)
                for name in stopped:
                    stopping.start_soon(self._stop, name)
            if self._is_connecting:
                for name in servers:
                    self._start(name)
        self._changed()

    def _read_listings(self, servers: Mapping[str, ServerSettings]) -> None:
        """Have the cache remember them, so that connections are made without waiting for it."""
        for name, settings in servers.items():
            self._deps.cache.get(name, fingerprint(settings))

    async def wait_settled(self, timeout_s: float) -> bool:
        """Wait until every upstream is connected or has failed; False if that took too long."""
        with anyio.move_on_after(timeout_s):
            while not all(connection.is_settled for connection in self._connections.values()):
                await self._any_change.wait()
            return True
        return False

    def explain_delays(self) -> None:
        """Give the listings of upstreams that are still connecting an error that says what is known."""
        for connection in self._connections.values():
            connection.explain_delay()

    @property
    def is_expecting_tools(self) -> bool:
        """True if an upstream that was never listed is still connecting."""
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
        self._any_change.notify()
        self._on_change()
