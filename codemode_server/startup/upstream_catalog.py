"""The upstreams of one product and the current catalog of their tools."""

from __future__ import annotations

import math

import anyio
import anyio.to_thread

from codemode_server.calls.policy.rules import with_permitted_prompts
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import prepare
from codemode_server.config import LoadedSettings
from codemode_server.domain.tools import UpstreamListing
from codemode_server.features.changed_tools.visible_listings import SeenListings
from codemode_server.startup.last_run import LastRun, upstream_pool
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.support.change_signal import ChangeSignal

_LARGE_LISTING = 1_000
"""Number of tools; building the folders of more would block the event loop for too long."""
_FIRST_LISTING_SECONDS = 10.0
"""Time after the handshake in which requests for tools wait for upstreams that were never listed before."""


class UpstreamCatalog:
    """Follows the listings of all upstreams and what the learning of types observes of their results."""

    def __init__(
        self,
        loaded: LoadedSettings,
        last_run: LastRun,
        audit: SqliteAudit,
        connected: anyio.Event,
    ) -> None:
        """`connected` starts the upstreams; it is set here if a program needs them before the host's handshake."""
        self.definitions = last_run.accepted
        self._visible = last_run.visible
        last_run.definition_store.delete_plain()
        last_run.listings.delete_plain()
        listings = SeenListings(last_run.listings, self.definitions, audit)
        self.pool = upstream_pool(loaded, listings, last_run.config, self.listings_changed)
        self._learning = last_run.learning
        self._protected = last_run.protected
        self._config = last_run.config
        self._connected = connected
        self._patience_until = math.inf
        self.revision = 0
        """The number of changes of listings so far."""
        self._changed = ChangeSignal()
        self._preparing = anyio.Lock()
        self._catalog = last_run.catalog
        self._catalog = self._newest()
        self._is_old = False

    def expect_tools(self) -> None:
        """From now on, `wait_for_listing` waits a bounded time."""
        self._patience_until = anyio.current_time() + _FIRST_LISTING_SECONDS

    async def wait_for_listing(self) -> None:
        """Wait, a bounded time after the handshake, for upstreams without a stored listing; and take over what the
        person has accepted meanwhile."""
        if self.pool.is_expecting_tools and self._patience_until > anyio.current_time():
            self._connected.set()
            await self.pool.wait_settled(self._patience_until - anyio.current_time())
            await self.prepare()
        if self._visible.notice_acceptances():
            self.listings_changed()
            await self.prepare()

    def current(self) -> Catalog:
        """The current tools; rebuilt only after a listing or an observed type changed. While a large listing is being
        prepared in the background, the previous tools."""
        if self._is_old and not self._is_large_change():
            self._catalog = self._newest()
            self._is_old = False
        if news := self._learning.take_news():
            self._catalog = self._catalog.with_observed(news)
        return self._catalog

    async def prepare(self) -> None:
        """Build the folders of large changed listings in a thread, then make them current."""
        async with self._preparing:
            while self._is_old and self._is_large_change():
                newest = self._newest()
                await anyio.to_thread.run_sync(prepare, newest)
                self._catalog = newest

    def listings_changed(self) -> None:
        self._is_old = True
        self.revision += 1
        self._changed.notify()

    async def wait_newer(self, revision: int) -> int:
        """Wait until the listings are newer than `revision`; returns the present revision."""
        while self.revision <= revision:
            await self._changed.wait()
        return self.revision

    def _newest(self) -> Catalog:
        catalog = Catalog.build(self._listings(), self._catalog, self._learning.known)
        return with_permitted_prompts(catalog, self._config.settings.permissions)

    def _listings(self) -> list[UpstreamListing]:
        return self._protected.within(self._visible.within(self.pool.listings()))

    def _is_large_change(self) -> bool:
        known = {server.raw_name: server.listing for server in self._catalog.servers}
        return any(len(it.tools) > _LARGE_LISTING and known.get(it.name) is not it for it in self._listings())
