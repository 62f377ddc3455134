"""The list of tools as of the last run, made without the MCP library: a host that starts the product waits for it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from codemode_server.catalog.catalog import Catalog
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.config.places import user_file
from codemode_server.config.settings import Settings
from codemode_server.features.changed_tools.sqlite_definitions import SqliteDefinitions
from codemode_server.features.changed_tools.tool_definitions import ToolDefinitions
from codemode_server.features.changed_tools.visible_listings import VisibleListings
from codemode_server.features.learned_types.learning import Learning
from codemode_server.features.privacy.protected_listings import ProtectedListings
from codemode_server.features.privacy.protection import protected_servers
from codemode_server.features.privacy.settings import PrivacySettings
from codemode_server.features.privacy.sqlite_tokens import TokenCipher
from codemode_server.mcp_server.listing import listing_of
from codemode_server.mcp_server.tools.registry import definitions
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.listing_store import ListingStore
from codemode_server.storage.server_texts import ServerTexts
from codemode_server.storage.tool_tables import SqliteObservedTypeStore, SqliteUsageStore
from codemode_server.support.private_files import data_folder
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.auth.sign_ins import SignIns
from codemode_server.upstreams.cache import ListingCache
from codemode_server.upstreams.pool import UpstreamPool


def state_folder(settings: Settings) -> Path:
    """Where the database and the workspaces are."""
    return Path(settings.state.dir) if settings.state.dir else data_folder()


@dataclass(frozen=True, slots=True)
class LastRun:
    """Data stored by the last run, read once: for the first `tools/list`, and then for `app.App`."""

    config: LiveConfig
    database: Database
    thread: DatabaseThread
    listings: ListingStore
    learning: Learning
    """Result types of tools, learned from earlier calls."""
    definition_store: SqliteDefinitions
    accepted: ToolDefinitions
    visible: VisibleListings
    protected: ProtectedListings
    catalog: Catalog

    @classmethod
    def read(cls, loaded: LoadedSettings) -> LastRun:
        """Open the database and read it. Blocks. Raises `JournalUnavailable`."""
        settings, config = loaded.settings, LiveConfig(loaded.settings, loaded.redactor)
        database = Database(state_folder(settings))
        thread = DatabaseThread(database.path.parent)
        cipher = TokenCipher(database.path.parent)
        texts = ServerTexts(cipher, partial(is_protected, config))
        listings = ListingStore(database, thread, texts)
        pool = upstream_pool(loaded, listings, config)
        learning = Learning(SqliteObservedTypeStore(database, thread), config)
        store = SqliteDefinitions(database, thread, texts)
        accepted = ToolDefinitions(store, config)
        visible = VisibleListings(accepted, config)
        protected = ProtectedListings(config, cipher.fingerprint)
        catalog = Catalog.build(protected.within(visible.within(pool.listings())), observed=learning.known)
        return cls(config, database, thread, listings, learning, store, accepted, visible, protected, catalog)

    def definitions(self, loaded: LoadedSettings) -> list[dict[str, Any]]:
        """Answer to `tools/list` before anything is connected. Servers that were never listed are only named."""
        settings, redactor, catalog = loaded.settings, loaded.redactor, self.catalog
        servers = listing_of(catalog, settings, stored_uses(settings, self.database, self.thread), redactor.text)
        return [*definitions(settings, servers), *self._direct(catalog, settings, redactor)]

    def prompts(self, loaded: LoadedSettings) -> list[dict[str, Any]]:
        """Answer to `prompts/list` before anything is connected."""
        if not any(server.listing.prompts for server in self.catalog.servers):
            return []
        from codemode_server.calls.policy.rules import with_permitted_prompts
        from codemode_server.features.prompts.prompts import prompt_definitions

        permitted = with_permitted_prompts(self.catalog, loaded.settings.permissions)
        return prompt_definitions(permitted, loaded.redactor)

    def _direct(self, catalog: Catalog, settings: Settings, redactor: Redactor) -> list[dict[str, Any]]:
        if not any(server.may_have_direct_tools for server in settings.servers.values()):
            return []
        from codemode_server.features.direct_tools.tools import DirectTools

        return DirectTools(catalog, settings, redactor).checked_definitions()[0]


def is_protected(config: LiveConfig, server: str) -> bool:
    """True if the answers of a server are searched for personal data."""
    settings = config.settings
    return server in protected_servers(PrivacySettings.of(settings), settings.servers)


def upstream_pool(
    loaded: LoadedSettings,
    listings: ListingCache,
    config: LiveConfig,
    on_change: Callable[[], None] = lambda: None,
) -> UpstreamPool:
    """The upstreams as of the last run; nothing of them is started yet."""
    return UpstreamPool(
        loaded.settings.servers,
        listings,
        on_change,
        config=config,
        invalid=reasons(loaded),
        sign_ins=sign_ins(loaded, config),
    )


def sign_ins(loaded: LoadedSettings, config: LiveConfig) -> SignIns:
    """The sign-ins of this machine's user."""
    store = EncryptedFileStore(state_folder(loaded.settings))
    place = f" --config {shlex.quote(str(loaded.path))}" if loaded.path not in (None, user_file()) else ""
    principal = local_principal(loaded.settings).principal_id
    return SignIns(store, principal, mask=config.mask_tokens, login_options=place)


def reasons(loaded: LoadedSettings) -> dict[str, str]:
    """The servers whose entries can't be used, each with what is wrong."""
    return {name: "; ".join(lines) for name, lines in loaded.invalid_servers.items()}


def stored_uses(settings: Settings, database: Database, thread: DatabaseThread) -> Mapping[ToolName, Use]:
    """How often each tool was called; empty if `search.habits` is off."""
    return SqliteUsageStore(database, thread).load() if settings.search.habits else {}
