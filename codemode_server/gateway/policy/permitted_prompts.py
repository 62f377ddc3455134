"""Leaves prompts out of a catalog that the permissions deny whatever their arguments are: nobody is told of them.

A prompt that a person is asked about stays. Each call is decided on by itself all the same.
"""

from __future__ import annotations

from dataclasses import replace

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.config.live import LiveConfig
from codemode_server.domain.resources import PromptDefinition
from codemode_server.gateway.policy.rules import PermissionRules, Subject
from codemode_server.gateway.targets import prompt_spellings

Prompts = tuple[PromptDefinition, ...]


class PermittedPrompts:
    """Decides once for each listing under the permissions in force."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._permissions = config.settings.permissions
        self._rules = PermissionRules(self._permissions)
        self._decided: dict[tuple[str, str], tuple[Prompts, Prompts]] = {}
        """By the names of the server: what it lists, and what of it is permitted."""

    def within(self, catalog: Catalog) -> Catalog:
        """The catalog with the permitted prompts of each server."""
        if self._permissions is not self._config.settings.permissions:
            self._permissions = self._config.settings.permissions
            self._rules, self._decided = PermissionRules(self._permissions), {}
        self._decided = {(server.raw_name, server.name): self._decide(server) for server in catalog.servers}
        servers = tuple(map(self._with_permitted, catalog.servers))
        return catalog if servers == catalog.servers else Catalog(servers)

    def _with_permitted(self, server: Server) -> Server:
        """The same object if nothing changes, since what was computed of it is stored in it."""
        permitted = self._decided[server.raw_name, server.name][1]
        return server if server.prompts == permitted else replace(server, prompts=permitted)

    def _decide(self, server: Server) -> tuple[Prompts, Prompts]:
        listed = server.listing.prompts
        known = self._decided.get((server.raw_name, server.name))
        if known is not None and known[0] is listed:
            return known
        return listed, tuple(prompt for prompt in listed if not self._is_denied(server, prompt))

    def _is_denied(self, server: Server, prompt: PromptDefinition) -> bool:
        return self._rules.always_denied(Subject.of_reading(server, prompt_spellings(prompt.name))) is not None
