"""Puts an edited configuration in force while a product runs. Secrets that an edit replaced stay masked: servers that
had them may still answer with them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio.to_thread

from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, beyond_running_machines, in_force
from codemode_server.config.places import ConfigFile
from codemode_server.config.settings import Settings
from codemode_server.config.watching import changes
from codemode_server.domain.errors import SettingsError
from codemode_server.domain.executions import IsolationLevel
from codemode_server.features import create
from codemode_server.mcp_server import http_token
from codemode_server.startup.upstream_catalog import reasons
from codemode_server.support.redaction import Redactor

if TYPE_CHECKING:
    from codemode_server.app import App

logger = logging.getLogger(__name__)


class ConfigTakeover:
    """The configuration of one product, from its files to what is in force."""

    def __init__(self, loaded: LoadedSettings, config: LiveConfig, *, has_mcp_tracing: bool = True) -> None:
        """`config` is what it is put in force in. Reads the HTTP token, so call it in a thread. Without
        `has_mcp_tracing`, `tracing.mcp` is off whatever the file says."""
        self.loaded = loaded
        self.whole: LoadedSettings | None = loaded
        """The same if all of it is in force, and no part waits for the next start."""
        self._has_mcp_tracing = has_mcp_tracing
        self._http_tokens = http_token.existing()
        self._replaced_secrets = frozenset[str]()
        self.config = config
        config.put(self._settings(loaded), self._redactor(), loaded.messages_for_model)

    async def watch(self, place: ConfigFile, app: App) -> None:
        """Put each edit of the file in force; an invalid one is logged and ignored."""
        async for news in changes(place, since=self.loaded):
            if isinstance(news, SettingsError):
                for line in str(news).splitlines():
                    logger.warning("the edited configuration is not used: %s", line)
                continue
            for line in news.all_messages:
                if line not in self.loaded.all_messages:
                    logger.warning("%s", line)
            self._replaced_secrets |= self.loaded.secrets - news.secrets
            # MicroVMs keep the limits that they were started with.
            await self._take_over(news, is_microvm=app.sandbox.level is IsolationLevel.MICROVM)
            await _follow(app, news)
            logger.info("took over the edited %s", place.path)

    async def _take_over(self, news: LoadedSettings, *, is_microvm: bool) -> None:
        self.loaded, self.whole = news, None
        settings, later = in_force(self.config.settings, self._settings(news))
        if is_microvm:
            later += beyond_running_machines(self.config.settings.limits, settings.limits)
        if later:
            logger.warning("%s: what was edited here is taken over at the next start", ", ".join(later))
        # A token that was replaced stays valid for products that serve it.
        self._http_tokens |= await anyio.to_thread.run_sync(http_token.existing)
        self.config.replace(settings, self._redactor(), news.messages_for_model)
        self.whole = None if later else news

    def _settings(self, loaded: LoadedSettings) -> Settings:
        settings = loaded.settings
        if not self._has_mcp_tracing:
            settings = create("without_mcp_tracing", settings, otherwise=settings)
        return settings

    def _redactor(self) -> Redactor:
        return Redactor(self.loaded.secrets | self._http_tokens | self._replaced_secrets)


async def _follow(app: App, loaded: LoadedSettings) -> None:
    settings = app.config.settings
    for one in app.saved:
        one.follow_config()
    app.stores.follow(settings.state)
    app.artifacts.follow(settings)
    await app.pool.reconfigure(settings.servers, reasons(loaded))
    app.tools.listings_changed()
