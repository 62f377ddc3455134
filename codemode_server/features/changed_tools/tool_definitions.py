"""Records which definitions of tools are accepted: takes each listing before it is published, and judges each call.

What is known is held in memory, so a call costs two look-ups. What another process accepts, such as a command, is
read before each program and each answer about tools.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio.to_thread

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.calls.policy.settings import PermissionSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.domain.calls import Deny
from codemode_server.domain.definitions import (
    KnownDefinition,
    KnownTools,
    by_tool,
    new_definitions,
)
from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.domain.tools import ToolDefinition
from codemode_server.support.text import one_line

if TYPE_CHECKING:
    from codemode_server.features.changed_tools.definition_store import DefinitionStore

logger = logging.getLogger(__name__)

_MAX_NAME_CHARACTERS = 1_000
REVIEW = "codemode-server tools review"


class ToolDefinitions:
    def __init__(self, store: DefinitionStore, config: LiveConfig, clock: Callable[[], float] = time.time) -> None:
        """Reads the store; blocks. Without it, what is listed first in this run is accepted."""
        self._store = store
        self._config = config
        self._clock = clock
        self.principal = local_principal(config.settings)
        self._known: dict[str, KnownTools] = {}
        try:
            known = store.known(self.principal)
        except JournalUnavailable as error:
            logger.warning("the accepted tools can't be read: %s", error)
            known = []
        for server in {it.server for it in known}:
            self._known[server] = by_tool(it for it in known if it.server == server)

    async def take(self, server: str, tools: Sequence[ToolDefinition]) -> list[KnownDefinition]:
        """Take a listing of a server that is about to be published; returns the definitions that wait for a review
        since."""
        known = self._known.get(server, {})
        accept_new = self._config.settings.permissions.new_tools == "allow"
        is_new_accepted = accept_new and any(
            not it.is_accepted and not it.former for its in known.values() for it in its.values()
        )
        if all(it.digest in known.get(it.name, {}) for it in tools) and not is_new_accepted:
            return []
        try:
            found = await self._store.take(self.principal, server, tools, accept_new=accept_new, at=self._clock())
        except JournalUnavailable as error:
            logger.warning("the tools of %s can't be compared with those of other products: %s", server, error)
            found = self._judged(server, known, tools, accept_new=accept_new)
        self._known[server] = by_tool(found)
        return [it for it in found if not it.is_accepted and it.digest not in known.get(it.tool, {})]

    def _judged(
        self, server: str, known: KnownTools, listed: Sequence[ToolDefinition], *, accept_new: bool
    ) -> list[KnownDefinition]:
        new = new_definitions(server, known, listed, accept_new=accept_new, at=self._clock())
        earlier = {(it.tool, it.digest): it for its in known.values() for it in its.values()}
        return [*(earlier | {(it.tool, it.digest): it for it in new}).values()]

    def unaccepted(self, server: str, tool: ToolDefinition) -> KnownDefinition | None:
        """The tool's definition if nobody has accepted it; as far as this product knows."""
        if not tool.digest or not (known := self._known.get(server)):
            return None
        found = known.get(tool.name, {}).get(tool.digest)
        if found is None:  # more definitions than are stored
            return KnownDefinition(server, tool.name, tool.digest, tool.name, self._clock(), None)
        return None if found.is_accepted else found

    def refusal(self, server: str, tool: ToolDefinition) -> Deny | None:
        """Why calls of a tool are refused since its definition is not accepted, as far as is known here."""
        found = self.unaccepted(server, tool)
        return None if found is None or not is_hidden(found, self._config.settings.permissions) else _denial(found)

    async def read_acceptances(self, server: str) -> None:
        """Take over what other processes have accepted of a server."""
        try:
            stored = by_tool(await anyio.to_thread.run_sync(self._store.known, self.principal, server))
        except JournalUnavailable as error:
            logger.warning("the accepted tools of %s can't be read: %s", server, error)
        else:
            self._known[server] = {**self._known.get(server, {}), **stored}


def is_hidden(it: KnownDefinition, permissions: PermissionSettings) -> bool:
    """True if the configuration hides a definition that nobody has accepted, and refuses calls of the tool."""
    return (permissions.for_changed_tools if it.former else permissions.new_tools) == "hide"


def _denial(it: KnownDefinition) -> Deny:
    """Without a word of the definition: programs, plans and the model read the reason."""
    kind = kind_of(it)
    reason = {
        "new": "the tool is new on this server (permissions.new_tools)",
        "changed": "the definition of the tool changed since it was accepted (permissions.changed_tools)",
    }.get(kind, f"the tool seems to be {kind} (permissions.changed_tools)")
    return Deny(f"{reason}; the user accepts it with `{REVIEW}`")


def review_event(it: KnownDefinition, principal: Principal, at: float, *, is_accepted: bool) -> AuditEvent:
    return AuditEvent(
        kind=AuditEventKind.TOOL_ACCEPTED if is_accepted else AuditEventKind.TOOL_CHANGED,
        principal=principal,
        session_id="",
        execution_id=ExecutionId(""),
        at=at,
        server=it.server[:_MAX_NAME_CHARACTERS],
        tool=it.tool[:_MAX_NAME_CHARACTERS],
        reason=f"{kind_of(it)}, definition {it.digest[:16]}",
        status="accepted" if is_accepted else "waiting",
    )


def kind_of(it: KnownDefinition) -> str:
    if it.former == it.tool:
        return "changed"
    return f"renamed from {one_line(it.former, 80)}" if it.former else "new"
