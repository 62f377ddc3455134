"""Connections beside those of the pool, which all hosts of the person who runs the product share.

- Another principal has one to a server that people sign in to, or with `per_principal: true`, so that each carries what
  its own principal signed in with.
- A folder of a host has one to a server that depends on it, started there.
- A session has one with `share: session`, or where the server asks for roots: what one host tells is not answered to
  another.

Each is made at the first call. One of a single session ends with that session. Any other ends once it was unused for
`IDLE_S`, unless a session that has used it still has its host: a server may hold state for that session. Over HTTP
nobody says that a session has ended, so only the time counts. Programs see the tools that the pool's connection lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from codemode_server.config.live import Caller
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import UpstreamUnavailable
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.principals import Principal, Session
from codemode_server.upstreams.auth.sign_ins import SignIns, has_sign_in
from codemode_server.upstreams.cache import CachedListing, ListingCache
from codemode_server.upstreams.connection import Connection
from codemode_server.upstreams.connection_deps import ConnectionDeps

MAX_CONNECTIONS = 256
IDLE_S = 900.0
"""A connection that nobody has used for so long ends, unless a session that has used it goes on."""


@dataclass(frozen=True, slots=True)
class ConnectionKey:
    """Who shares a connection: everybody for whom all of it is the same. Empty fields: all of them."""

    server: str
    principal: Principal | None = None
    """None: the one that runs the product, and those that share its connections."""
    folder: str = ""
    """Absolute path."""
    session_id: str = ""


def _is_per_principal(settings: ServerSettings) -> bool:
    """True if each principal has a connection of its own to the server."""
    return has_sign_in(settings) if settings.per_principal is None else settings.per_principal


@dataclass(slots=True)
class _OwnConnection:
    connection: Connection
    users: int = 0
    used_at: float = field(default_factory=anyio.current_time)
    """When the last user went."""
    sessions: set[str] = field(default_factory=set)
    """The sessions over streams that have used it."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class OwnConnections:
    """Those connections, by who shares them."""

    def __init__(
        self, deps: ConnectionDeps, sign_ins: Callable[[Principal], SignIns] | None, idle_s: float = IDLE_S
    ) -> None:
        self._deps = deps
        self._sign_ins = sign_ins
        self._idle_s = idle_s
        self._own: dict[ConnectionKey, _OwnConnection] = {}
        self.attached: Set[str] | None = None
        """The sessions over streams whose hosts are connected at present; None: every one that has called a server."""

    def key_of(
        self, shared: Connection, caller: Caller, features: frozenset[Feature], folder: str, *, runs_product: bool
    ) -> ConnectionKey:
        """The connection of a call to the server of `shared`, the pool's connection. `features` are those of the host,
        `folder`: where the server would start for it."""
        settings, session = shared.settings, caller.session
        principal = None if runs_product or not _is_per_principal(settings) else caller.principal
        key = ConnectionKey(shared.name, principal, folder if folder != shared.folder else "")
        if session.is_ephemeral:
            return key
        is_own = settings.share == "session" or self._has_own_roots(key, shared, session.session_id, features)
        return replace(key, session_id=session.session_id) if is_own else key

    def _has_own_roots(
        self, key: ConnectionKey, shared: Connection, session_id: str, features: frozenset[Feature]
    ) -> bool:
        """True if the server takes folders from its host, and must not have those of this session over the connection
        of this key, which is for several sessions."""
        if not shared.offers.asks_for_roots or shared.settings.roots != "forward" or shared.settings.share == "person":
            return False
        own = self._own.get(key)
        connection = shared if own is None else own.connection
        if connection.roots_session:
            return connection.roots_session != session_id
        return Feature.ROOTS in features

    @contextmanager
    def using(
        self,
        key: ConnectionKey,
        shared: Connection,
        session: Session,
        features: frozenset[Feature],
        tasks: TaskGroup | None,
    ) -> Iterator[Connection]:
        """The connection of this key to the server of `shared`, held while the block runs in this session, whose host
        has these features. Raises `UpstreamUnavailable`: there are too many connections, or the product ends."""
        own = self._own.get(key) or self._start(key, shared, features, tasks)
        own.users += 1
        if session.folder:  # only sessions over streams have one
            own.sessions.add(session.session_id)
        try:
            yield own.connection
        finally:
            own.users -= 1
            own.used_at = anyio.current_time()

    def leave(self, session: Session) -> None:
        """A session over a stream has ended: end the connections that only it used."""
        for key in [it for it in self._own if it.session_id == session.session_id]:
            self._end(key)

    def counts(self) -> Mapping[str, int]:
        """How many there are, by the raw name of their server."""
        return Counter(key.server for key in self._own)

    def _start(
        self, key: ConnectionKey, shared: Connection, features: frozenset[Feature], tasks: TaskGroup | None
    ) -> _OwnConnection:
        if len(self._own) >= MAX_CONNECTIONS:
            self._end_unused()
        if tasks is None or len(self._own) >= MAX_CONNECTIONS:
            why = "codemode-server is shutting down" if tasks is None else "too many connections are open"
            raise UpstreamUnavailable(f"server {key.server!r}: {why}")
        deps = replace(self._deps, cache=_ReadOnly(self._deps.cache), on_change=lambda: None)
        if key.principal is not None and self._sign_ins is not None:
            deps.sign_ins = self._sign_ins(key.principal)
        if key.session_id:
            deps.host_features = {*features}  # of this host alone
        connection = Connection(
            key.server,
            shared.settings,
            deps,
            listed_by=shared,
            folder=key.folder or shared.folder,
            session_id=key.session_id,
        )
        if key.principal is None:
            connection.writing = shared.writing  # they may write to the same file or account
        own = self._own[key] = _OwnConnection(connection)
        tasks.start_soon(self._run, key, own, name=f"upstream {key.server}, a connection of its own")
        return own

    async def _run(self, key: ConnectionKey, own: _OwnConnection) -> None:
        try:
            with own.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(own.connection.run)
                    unused_s = 0.0
                    while unused_s < self._idle_s:
                        await anyio.sleep(self._idle_s - unused_s)
                        is_needed = own.users or self._has_attached(own)
                        unused_s = 0.0 if is_needed else anyio.current_time() - own.used_at
                    self._forget(key, own)
                    tasks.cancel_scope.cancel()
        finally:
            self._forget(key, own)
            own.ended.set()

    def _has_attached(self, own: _OwnConnection) -> bool:
        return bool(own.sessions if self.attached is None else own.sessions & self.attached)

    def _end_unused(self) -> None:
        """End the connection that nobody has used for the longest time."""
        unused = [(own.used_at, key) for key, own in self._own.items() if not own.users]
        if unused:
            _, key = min(unused, key=lambda it: it[0])
            self._end(key)

    def _end(self, key: ConnectionKey) -> _OwnConnection:
        own = self._own.pop(key)
        own.scope.cancel()
        return own

    def _forget(self, key: ConnectionKey, own: _OwnConnection) -> None:
        if self._own.get(key) is own:
            del self._own[key]

    async def reconfigure(self, servers: Mapping[str, ServerSettings]) -> None:
        """Take over new settings; connections that need others end, and are made again when they are used."""
        ending = []
        for key, own in list(self._own.items()):
            settings = servers.get(key.server)
            is_shared_now = settings is not None and key.principal is not None and not _is_per_principal(settings)
            if settings is None or is_shared_now or not own.connection.adjust(settings):
                ending.append(self._end(key))
        for own in ending:
            await own.ended.wait()


class _ReadOnly:
    """Implements `ListingCache`: what is known of a server is read. What a connection of one's own lists is not stored,
    since it says nothing about the tools of the others."""

    def __init__(self, cache: ListingCache) -> None:
        self._cache = cache

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        return self._cache.get(name, fingerprint)

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        pass
