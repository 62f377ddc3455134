"""Connections of the principals that do not run the product: each carries what its own principal signed in with.

The person who runs the product has the connections of the pool, and everybody shares those of servers that know nobody.
A server that people sign in to, or one with `per_principal: true`, gets a connection for each of the others, made at
their first call and ended when nobody has used it for a while. Which tools such a server has is known from the pool's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import UpstreamUnavailable
from codemode_server.domain.principals import Principal
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.auth.sign_ins import SignIns, signs_in
from codemode_server.upstreams.cache import CachedListing
from codemode_server.upstreams.connection import Connection
from codemode_server.upstreams.connection_deps import ConnectionDeps

MAX_CONNECTIONS = 256
IDLE_S = 900.0
"""A connection that nobody has used for so long ends."""


def has_own_connections(settings: ServerSettings) -> bool:
    """True if each principal has a connection of its own to the server."""
    if settings.per_principal is not None:
        return settings.per_principal
    grant = (settings.oauth or OAuthSettings()).grant
    return settings.url is not None and signs_in(settings) and grant == "authorization_code"


@dataclass(slots=True)
class _Own:
    connection: Connection
    users: int = 0
    used_at: float = field(default_factory=anyio.current_time)
    """When the last user went."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class PrincipalConnections:
    """The connections of the others, by principal and server."""

    def __init__(self, deps: ConnectionDeps, sign_ins: Callable[[Principal], SignIns], idle_s: float = IDLE_S) -> None:
        self._deps = deps
        self._sign_ins = sign_ins
        self._idle_s = idle_s
        self._own: dict[tuple[Principal, str], _Own] = {}

    @contextmanager
    def using(
        self, principal: Principal, server: str, settings: ServerSettings, tasks: TaskGroup | None
    ) -> Iterator[Connection]:
        """The connection of this principal, held while the block runs. Raises `UpstreamUnavailable`: there are too many
        connections, or the product ends."""
        own = self._own.get((principal, server)) or self._start(principal, server, settings, tasks)
        own.users += 1
        try:
            yield own.connection
        finally:
            own.users -= 1
            own.used_at = anyio.current_time()

    def _start(self, principal: Principal, server: str, settings: ServerSettings, tasks: TaskGroup | None) -> _Own:
        if tasks is None or len(self._own) >= MAX_CONNECTIONS:
            why = "codemode-server is shutting down" if tasks is None else "too many connections of principals are open"
            raise UpstreamUnavailable(f"server {server!r}: {why}")
        deps = replace(self._deps, cache=_NothingStored(), on_change=lambda: None, sign_ins=self._sign_ins(principal))
        own = self._own[principal, server] = _Own(Connection(server, settings, deps))
        tasks.start_soon(self._run, (principal, server), own, name=f"upstream {server} of {principal.principal_id}")
        return own

    async def _run(self, key: tuple[Principal, str], own: _Own) -> None:
        try:
            with own.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(own.connection.run)
                    unused_s = 0.0
                    while unused_s < self._idle_s:
                        await anyio.sleep(self._idle_s - unused_s)
                        unused_s = 0.0 if own.users else anyio.current_time() - own.used_at
                    self._forget(key, own)
                    tasks.cancel_scope.cancel()
        finally:
            self._forget(key, own)
            own.ended.set()

    def _forget(self, key: tuple[Principal, str], own: _Own) -> None:
        if self._own.get(key) is own:
            del self._own[key]

    async def reconfigure(self, servers: Mapping[str, ServerSettings]) -> None:
        """Take over new settings; connections that need others end, and are made again when they are used."""
        ending = []
        for (principal, server), own in list(self._own.items()):
            settings = servers.get(server)
            if settings is None or not has_own_connections(settings) or not own.connection.adjust(settings):
                self._forget((principal, server), own)
                own.scope.cancel()
                ending.append(own)
        for own in ending:
            await own.ended.wait()


class _NothingStored:
    """Implements `ListingCache`: what one principal's connection lists says nothing about the tools of the others."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        return None

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        pass
