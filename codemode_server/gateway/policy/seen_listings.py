"""Lets the accepted definitions see each listing before it is published, so that no call and no reading can come in
between; records what waits for a review since then."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from codemode_server.domain.definitions import KnownDefinition, server_definition
from codemode_server.domain.tools import ToolDefinition
from codemode_server.gateway.audit import Audit
from codemode_server.gateway.policy.readable_listings import ReadableListings
from codemode_server.gateway.policy.tool_definitions import ToolDefinitions, waiting_event
from codemode_server.text import one_line
from codemode_server.upstreams.cache import CachedListing, ListingCache

logger = logging.getLogger(__name__)

_MAX_AUDITED = 200
"""Changes of one server that are recorded while the product runs; a server that changes without end must not fill the
audit."""


class SeenListings:
    """A `ListingCache` that stores in another one."""

    def __init__(
        self, cache: ListingCache, definitions: ToolDefinitions, readable: ReadableListings, audit: Audit
    ) -> None:
        self._cache = cache
        self._definitions = definitions
        self._readable = readable
        self._audit = audit
        self._audited: dict[str, int] = {}
        self._taken: dict[str, tuple[Sequence[ToolDefinition], str]] = {}
        """Tools and description of each server's last listing, which is stored again when only its resources change."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        return self._cache.get(name, fingerprint)

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        tools, description = self._taken.get(name, ((), ""))
        if tools is not listing.tools or description != listing.description:
            about = [server_definition(listing.description)] if listing.description else []
            self._note(name, await self._definitions.take(name, [*listing.tools, *about]))
            await self._readable.prepare(name, listing.tools)
            self._taken[name] = listing.tools, listing.description
        await self._cache.put(name, fingerprint, listing)

    def _note(self, server: str, waiting: Sequence[KnownDefinition]) -> None:
        if not waiting:
            return
        logger.warning(
            "the tools of %s differ from those that were accepted, in %d; `codemode-server tools review` shows them",
            *(one_line(server, 80), len(waiting)),
        )
        for it in waiting:
            self._audited[server] = self._audited.get(server, 0) + 1
            if self._audited[server] <= _MAX_AUDITED:
                self._audit.append(waiting_event(it, self._definitions.principal, time.time()))
