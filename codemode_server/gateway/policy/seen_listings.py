"""Lets the accepted definitions see each listing before it is published, so that no call can come in between."""

from __future__ import annotations

from collections.abc import Sequence

from codemode_server.domain.tools import ToolDefinition
from codemode_server.gateway.policy.tool_definitions import ToolDefinitions
from codemode_server.upstreams.cache import CachedListing, ListingCache


class SeenListings:
    """A `ListingCache` that stores in another one."""

    def __init__(self, cache: ListingCache, definitions: ToolDefinitions) -> None:
        self._cache = cache
        self._definitions = definitions
        self._taken: dict[str, Sequence[ToolDefinition]] = {}
        """The last listing of each server: a listing is stored again when only its resources change."""

    def get(self, name: str, fingerprint: str) -> CachedListing | None:
        return self._cache.get(name, fingerprint)

    async def put(self, name: str, fingerprint: str, listing: CachedListing) -> None:
        if self._taken.get(name) is not listing.tools:
            await self._definitions.take(name, listing.tools)
            self._taken[name] = listing.tools
        await self._cache.put(name, fingerprint, listing)
