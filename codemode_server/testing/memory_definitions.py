"""A store of tools' definitions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codemode_server.domain.definitions import KnownDefinition, ListedDefinition, by_tool, new_definitions
from codemode_server.domain.principals import Principal
from codemode_server.gateway.policy.definition_store import MAX_ACCEPTED, MAX_DEFINITIONS, MAX_WAITING

_Key = tuple[Principal, str, str, str]


class MemoryDefinitions:
    """Implements `gateway.policy.definition_store.DefinitionStore`. Raises `failure` from every method while one is
    set."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._known: dict[_Key, tuple[KnownDefinition, str]] = {}

    def known(self, principal: Principal, server: str | None = None, tool: str | None = None) -> list[KnownDefinition]:
        self._fail()
        found = [it for (owner, *_), (it, _) in self._known.items() if owner == principal]
        found = [it for it in found if server in (None, it.server) and tool in (None, it.tool)]
        return sorted(found, key=lambda it: it.seen_at)

    def text(self, principal: Principal, server: str, tool: str, digest: str) -> str:
        self._fail()
        return self._known.get((principal, server, tool, digest), (None, ""))[1]

    async def take(
        self, principal: Principal, server: str, listed: Sequence[ListedDefinition], *, accept_new: bool, at: float
    ) -> list[KnownDefinition]:
        known = by_tool(self.known(principal, server))
        texts = {(it.tool, it.digest): it.text for it in listed}
        for it in new_definitions(server, known, listed, accept_new=accept_new, at=at):
            key = (principal, server, it.tool, it.digest)
            if key in self._known or len(self.known(principal, server)) < MAX_DEFINITIONS:
                self._known[key] = it, texts[it.tool, it.digest]
                self._forget_oldest(principal, it)
        return self.known(principal, server)

    async def accept(self, principal: Principal, definition: KnownDefinition, *, at: float) -> bool:
        self._fail()
        key = (principal, definition.server, definition.tool, definition.digest)
        if key not in self._known:
            return False
        known, text = self._known[key]
        self._known[key] = replace(known, accepted_at=at), text
        self._forget_oldest(principal, definition)
        return True

    def _forget_oldest(self, principal: Principal, of: KnownDefinition) -> None:
        its = self.known(principal, of.server, of.tool)
        accepted = sorted((it for it in its if it.is_accepted), key=lambda it: it.accepted_at or 0.0)
        waiting = [it for it in its if not it.is_accepted]
        for late in (*accepted[:-MAX_ACCEPTED], *waiting[:-MAX_WAITING]):
            del self._known[principal, late.server, late.tool, late.digest]

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
