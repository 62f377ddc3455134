"""Takes the learned types of tools that return private data out of the catalog, where `privacy.private_free_text`
forbids free text: keys of results may be private data too, and stubs are shown to sessions that have read nothing."""

from __future__ import annotations

from dataclasses import replace

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.labels import PRIVATE
from codemode_server.catalog.observed import NOTHING_YET
from codemode_server.config.live import LiveConfig
from codemode_server.gateway.policy.labels import ToolLabels


class PrivateTypes:
    """Decides once for each server under the configuration in force."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._settings = config.settings
        self._labels = ToolLabels(config)
        self._made: dict[str, tuple[Server, Server]] = {}
        """By raw name: the server, and the server as it is shown."""

    def without(self, catalog: Catalog) -> Catalog:
        """The catalog without these types; the same object if nothing changes."""
        if self._settings is not self._config.settings:
            self._settings, self._made = self._config.settings, {}
        if self._settings.privacy.private_free_text == "allow":
            return catalog
        self._made = {server.raw_name: (server, self._shown(server)) for server in catalog.servers}
        is_same = all(server is shown for server, shown in self._made.values())
        return catalog if is_same else Catalog(tuple(self._made[server.raw_name][1] for server in catalog.servers))

    def _shown(self, server: Server) -> Server:
        known = self._made.get(server.raw_name)
        if known is not None and known[0] is server:
            return known[1]
        hidden = {tool.raw_name for tool in server.tools if self._is_hidden(server, tool)}
        if not hidden:
            return server
        tools = (replace(tool, observed=NOTHING_YET) if tool.raw_name in hidden else tool for tool in server.tools)
        return replace(server, tools=tuple(tools))

    def _is_hidden(self, server: Server, tool: Tool) -> bool:
        has_learned = tool.observed is not None and tool.observed.calls > 0
        return has_learned and PRIVATE in self._labels.of_tool(server, tool)
