"""The upstreams of one product, the current catalog of their tools, and what of it a host is offered."""

from __future__ import annotations

import math
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from codemode_server.calls.policy.rules import with_permitted_prompts
from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import prepare
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.config.places import host_folder, user_file
from codemode_server.domain.tools import UpstreamListing
from codemode_server.features import create
from codemode_server.features.changed_tools.tool_definitions import ToolDefinitions
from codemode_server.features.changed_tools.visible_listings import SeenListings, VisibleListings
from codemode_server.mcp_server.listing import Listing, listing_of
from codemode_server.mcp_server.offered_tools import unlisted
from codemode_server.mcp_server.tools.registry import definitions
from codemode_server.search.usage_store import load_uses
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.startup.stores import Stores, state_folder
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.upstreams.auth.sign_ins import SignIns
from codemode_server.upstreams.pool import UpstreamPool

if TYPE_CHECKING:
    from codemode_server.features.learned_types.learning import Learning
    from codemode_server.features.privacy.protected_listings import ProtectedListings
    from codemode_server.mcp_server.product import DirectTools, Prompts

_LARGE_LISTING = 1_000
"""Number of tools; building the folders of more would block the event loop for too long."""
_FIRST_LISTING_SECONDS = 10.0
"""Time after the handshake in which requests for tools wait for upstreams that were never listed before."""


class UpstreamCatalog:
    """Follows the listings of all upstreams and what the learning of types observes of their results."""

    def __init__(self, loaded: LoadedSettings) -> None:
        """Opens the database and reads it; nothing is started yet. Blocks. Raises `JournalUnavailable`."""
        self.config = LiveConfig(loaded.settings, loaded.redactor)
        self.stores = Stores(self.config)
        self.learning: Learning | None = create("learning", self.stores.observed_types, self.config)
        if self.learning is not None:
            self.learning.load()
        self.definitions = ToolDefinitions(self.stores.definitions, self.config)
        self._visible = VisibleListings(self.definitions, self.config)
        self._protected: ProtectedListings | None = create(
            "protected_listings", self.config, self.stores.token_cipher.fingerprint
        )
        self.pool = UpstreamPool(
            loaded.settings.servers,
            SeenListings(self.stores.listings, self.definitions, self.stores.audit),
            self.listings_changed,
            config=self.config,
            invalid=reasons(loaded),
            sign_ins=sign_ins(loaded, self.config),
            start_folder=partial(host_folder, loaded.base_dir),
        )
        self.connected = anyio.Event()
        """Starts the upstreams; it is set here if a program needs them before the host's handshake."""
        self._patience_until = math.inf
        self.revision = 0
        """The number of changes of listings so far."""
        self._changed = ChangeSignal()
        self._preparing = anyio.Lock()
        self._catalog = Catalog.build([])
        self._catalog = self._newest()
        self.unlisted_at_start = unlisted(self._catalog)
        self._has_had_direct_tools = self._may_have_direct_tools()
        self._is_old = False

    def expect_tools(self) -> None:
        """From now on, `wait_for_listing` waits a bounded time."""
        self._patience_until = anyio.current_time() + _FIRST_LISTING_SECONDS

    async def wait_for_listing(self) -> None:
        """Wait, a bounded time after the handshake, for upstreams without a stored listing."""
        if self.pool.is_expecting_tools and self._patience_until > anyio.current_time():
            self.connected.set()
            await self.pool.wait_settled(self._patience_until - anyio.current_time())
            await self.prepare()
        await self.take_acceptances()

    async def take_acceptances(self) -> None:
        """Show the tools that the person has accepted meanwhile, maybe in another process."""
        if await self._visible.notice_acceptances():
            self.listings_changed()
            await self.prepare()

    def current(self) -> Catalog:
        """The current tools; rebuilt only after a listing or an observed type changed. While a large listing is being
        prepared in the background, the previous tools."""
        if self._is_old and not self._is_large_change():
            self._catalog = self._newest()
            self._is_old = False
        if self.learning is not None and (news := self.learning.take_news()):
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
        """A server has listed something else, or the configuration was edited."""
        self._is_old = True
        self._has_had_direct_tools |= self._may_have_direct_tools()
        self.revision += 1
        self._changed.notify()

    async def wait_newer(self, revision: int) -> int:
        """Wait until the listings are newer than `revision`; returns the present revision."""
        while self.revision <= revision:
            await self._changed.wait()
        return self.revision

    @property
    def direct_tools(self) -> DirectTools | None:
        """The tools of servers that the host gets; None if no configuration so far has had it get any: a host may call
        what an edit has taken away."""
        if not self._has_had_direct_tools:
            return None
        found: DirectTools | None = create("direct_tools", self.current(), self.config.settings, self.config.redactor)
        return found

    @property
    def prompts(self) -> Prompts | None:
        """The prompts of servers; None if there are none."""
        if not any(server.prompts for server in self.current().servers):
            return None
        found: Prompts | None = create("prompts", self.current(), self.config.redactor)
        return found

    def offered(self) -> list[dict[str, Any]]:
        """The answer to `tools/list` for a session that begins now. Servers that were never listed are only named."""
        direct = self.direct_tools
        own = definitions(self.config.settings, self._described())
        return own if direct is None else [*own, *direct.definitions()]

    def _described(self) -> Listing:
        settings = self.config.settings
        uses = load_uses(self.stores.uses) if settings.search.habits else {}
        return listing_of(self.current(), settings, uses, self.config.redactor.text)

    def _newest(self) -> Catalog:
        known = () if self.learning is None else (self.learning.known,)
        catalog = Catalog.build(self._listings(), self._catalog, *known)
        return with_permitted_prompts(catalog, self.config.settings.permissions)

    def _listings(self) -> list[UpstreamListing]:
        visible = self._visible.within(self.pool.listings())
        return visible if self._protected is None else self._protected.within(visible)

    def _may_have_direct_tools(self) -> bool:
        return any(server.may_have_direct_tools for server in self.config.settings.servers.values())

    def _is_large_change(self) -> bool:
        known = {server.raw_name: server.listing for server in self._catalog.servers}
        return any(len(it.tools) > _LARGE_LISTING and known.get(it.name) is not it for it in self._listings())


def sign_ins(loaded: LoadedSettings, config: LiveConfig) -> SignIns:
    """The sign-ins of this machine's user."""
    store = EncryptedFileStore(state_folder(loaded.settings))
    place = f" --config {shlex.quote(str(loaded.path))}" if loaded.path not in (None, user_file()) else ""
    principal = local_principal(loaded.settings).principal_id
    return SignIns(store, principal, mask=config.mask_tokens, login_options=place)


def reasons(loaded: LoadedSettings) -> dict[str, str]:
    """The servers whose entries can't be used, each with what is wrong."""
    return {name: "; ".join(lines) for name, lines in loaded.invalid_servers.items()}
