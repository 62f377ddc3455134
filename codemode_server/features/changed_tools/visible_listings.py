"""Hides tools whose definition changed since it was accepted, and new ones if the configuration says so.

A description can be written to talk a model into something, and a rule that allows a tool was written for the tool
as it was. So until the person has accepted the change, the model reads only that there is one, and calls are refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from codemode_server.config.live import LiveConfig
from codemode_server.domain.definitions import SERVER, KnownDefinition, server_definition
from codemode_server.domain.tools import ToolDefinition, UpstreamListing
from codemode_server.features.changed_tools.tool_definitions import REVIEW, ToolDefinitions, review_event
from codemode_server.support.text import one_line
from codemode_server.upstreams.cache import CachedListing, ListingCache

if TYPE_CHECKING:
    from codemode_server.storage.audit import Audit

logger = logging.getLogger(__name__)

HIDDEN = f"The definition of this tool changed and is hidden until the user accepts it with `{REVIEW}`."
_MAX_AUDITED = 200
"""Changes of one server that are recorded while this process runs; a server that changes without end must not fill the
audit."""


class VisibleListings:
    """The listings as the model may read them. An unchanged listing remains the same object."""

    def __init__(self, definitions: ToolDefinitions, config: LiveConfig) -> None:
        self._definitions = definitions
        self._config = config
        self._settings = config.settings
        self._made: dict[str, tuple[UpstreamListing, tuple[ToolDefinition, ...], UpstreamListing]] = {}
        """The listing of each server, its hidden definitions, also that of its description, and the visible form."""

    def within(self, listings: Iterable[UpstreamListing]) -> list[UpstreamListing]:
        return [self._within(listing) for listing in listings]

    async def notice_acceptances(self) -> bool:
        """True if the hidden tools have changed since the listings were made, also by another process."""
        settings, is_other = self._config.settings, False
        is_edited, self._settings = settings is not self._settings, settings
        for server, (listing, hidden, _) in [*self._made.items()]:
            if hidden:
                await self._definitions.read_acceptances(server)
            if hidden or is_edited:
                is_other = is_other or self._hidden_of(listing) != hidden
        return is_other

    def _within(self, listing: UpstreamListing) -> UpstreamListing:
        hidden, made = self._hidden_of(listing), self._made.get(listing.name)
        if made is None or made[0] is not listing or made[1] != hidden:
            visible = _without(listing, hidden) if hidden else listing
            made = self._made[listing.name] = listing, hidden, visible
        return made[2]

    def _hidden_of(self, listing: UpstreamListing) -> tuple[ToolDefinition, ...]:
        settings = self._config.settings.servers.get(listing.name)
        is_own = settings is not None and bool(settings.description)  # the person's own words
        about = [server_definition(listing.description)] if listing.description and not is_own else []
        return tuple(it for it in (*listing.tools, *about) if self._definitions.refusal(listing.name, it) is not None)


def _without(listing: UpstreamListing, hidden: Sequence[ToolDefinition]) -> UpstreamListing:
    names = {it.name for it in hidden}
    tools = tuple(
        replace(it, description=HIDDEN, title=None, input_schema={"type": "object"}, output_schema=None)
        if it.name in names
        else it
        for it in listing.tools
    )
    is_described = SERVER not in names
    return replace(listing, tools=tools, description=listing.description if is_described else "")


class SeenListings:
    """A `ListingCache` that stores in another one. The accepted definitions see each listing before it is published, so
    that no call and no reading can come in between; what waits for a review since then is recorded."""

    def __init__(self, cache: ListingCache, definitions: ToolDefinitions, audit: Audit) -> None:
        self._cache = cache
        self._definitions = definitions
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
            self._taken[name] = listing.tools, listing.description
        await self._cache.put(name, fingerprint, listing)

    def _note(self, server: str, waiting: Sequence[KnownDefinition]) -> None:
        if not waiting:
            return
        logger.warning(
            "the tools of %s differ from those that were accepted, in %d; `codemode-server tools review` shows them",
            one_line(server, 80),
            len(waiting),
        )
        for it in waiting:
            self._audited[server] = self._audited.get(server, 0) + 1
            if self._audited[server] <= _MAX_AUDITED:
                self._audit.append(review_event(it, self._definitions.principal, time.time(), is_accepted=False))
