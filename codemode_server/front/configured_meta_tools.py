"""Meta-tools of a running product: calls go to the handlers of the registry, resources to the stored results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread
from mcp.server.lowlevel.helper_types import ReadResourceContents

from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.principals import Session
from codemode_server.front.blocks import artifact_name, contents_of
from codemode_server.front.listing import Listing, listing_of
from codemode_server.front.meta_tools import definitions
from codemode_server.front.tools.registry import (
    Answer,
    MetaToolSpec,
    Progress,
    Services,
    ToolArguments,
    ToolContext,
)
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.text import clean_line

_MAX_SESSIONS = 256
"""Lists remembered; one is about 6 KB. A session that is forgotten gets the list as it is then."""

Definitions = list[dict[str, Any]]


class ConfiguredMetaTools:
    """Implements `front.server.MetaTools`."""

    def __init__(self, services: Services, config: LiveConfig, uses: Callable[[], Mapping[ToolName, Use]]) -> None:
        """`uses` reads how often each tool was called, for the choice of the tools that descriptions name."""
        self._services = services
        self._config = config
        self._uses = uses
        self._structured_content = config.settings.results.structured_content
        self._definitions = _SessionDefinitions()

    async def has_structured_content(self) -> bool:
        return self._structured_content

    def servers(self) -> Listing:
        """The text about the servers for the descriptions and instructions of a session that begins now."""
        config = self._config
        return listing_of(self._services.catalog(), config.settings, self._uses(), config.redactor.text)

    async def definitions(self, session: Session) -> list[dict[str, Any]]:
        settings = self._config.settings
        offered = (self._services.catalog().version, settings)
        return self._definitions.of(session, offered, lambda: definitions(settings, self.servers()))

    async def call(
        self, spec: MetaToolSpec[Any], arguments: ToolArguments, session: Session, progress: Progress
    ) -> Answer:
        request = RequestContext.local(session, self._config)
        return await spec.handle(arguments, ToolContext(request, progress, self._services))

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        name = artifact_name(uri)
        if name is None:
            raise MetaToolError(f"there is no resource {clean_line(uri, 200)!r}; a program's result names its own")
        owner = RequestContext.local(session, self._config).owner
        item, data = await anyio.to_thread.run_sync(self._services.artifacts.read, owner, name)
        return contents_of(item, data, self._config.redactor)


class _SessionDefinitions:
    """Keeps the list of tools the same for a whole session, since hosts put it before everything that they send to a
    model.

    The first request of a session fixes its list. Requests without a session (HTTP, protocol 2026-07-28) get the same
    list until the tools of the servers or the settings change.
    """

    def __init__(self) -> None:
        self._of_sessions: dict[str, Definitions] = {}
        self._without_session: tuple[object, Definitions] | None = None

    def of(self, session: Session, offered: object, build: Callable[[], Definitions]) -> Definitions:
        """The list of a session, built if this is its first request. `offered` is what it is built from."""
        if session.is_ephemeral:
            if self._without_session is None or self._without_session[0] != offered:
                self._without_session = offered, build()
            return self._without_session[1]
        known = self._of_sessions.pop(session.session_id, None) or build()
        self._of_sessions[session.session_id] = known  # the latest last
        if len(self._of_sessions) > _MAX_SESSIONS:
            del self._of_sessions[next(iter(self._of_sessions))]
        return known
