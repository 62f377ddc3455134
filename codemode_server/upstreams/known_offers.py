"""What is known of one upstream's tools, resources and prompts: as listed last, as stored for the next run."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from codemode_server.config.settings import ServerSettings
from codemode_server.domain.tools import EFFECTS_OF_SETTINGS, ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.upstreams.cache import CachedListing, fingerprint
from codemode_server.upstreams.connection_deps import ConnectionDeps
from codemode_server.upstreams.listings import OffersFound, ToolsFound, describe_server, list_offers, list_tools

if TYPE_CHECKING:
    from codemode_server.upstreams.session import Session

ProtocolMode = Literal["auto", "legacy"]
_MAX_VERSION_CHARACTERS = 200
_STATES_WITH_ERROR = (UpstreamState.FAILED, UpstreamState.SIGNED_OUT, UpstreamState.CONNECTING)


class KnownOffers:
    """The offers of one upstream, from those of the last run on."""

    def __init__(self, name: str, settings: ServerSettings, deps: ConnectionDeps) -> None:
        self._name = name
        self._deps = deps
        self._fingerprint = fingerprint(settings)
        self._found = deps.cache.get(name, self._fingerprint) or CachedListing()
        self.protocol_mode: ProtocolMode = self._found.protocol_mode
        """How to speak to the server the next time."""
        self.digests: dict[str, str] = {}
        """Digest of each tool's definition by its raw name, as listed by the present connection."""

    @property
    def asks_for_roots(self) -> bool:
        """As in `CachedListing`."""
        return self._found.asks_for_roots

    async def note_roots(self) -> None:
        """The server has asked for roots."""
        if not self._found.asks_for_roots:
            self._found = replace(self._found, asks_for_roots=True)
            await self._store()

    async def list_tools(self, session: Session) -> ToolsFound:
        """The tools that the server offers now. Raises as `listings.list_tools`."""
        redact = self._deps.redactor().value
        found = await list_tools(session, refuse_schema=session.refuse_schema, redact=redact)
        session.remember(found.tools)
        return found

    async def take_tools(
        self, found: ToolsFound, session: Session, settings: ServerSettings, protocol_mode: ProtocolMode
    ) -> None:
        """Take what was listed over a session."""
        server, redactor = session.server, self._deps.redactor()
        version = None
        if server.server_version is not None:
            version = redactor.text(server.server_version)[:_MAX_VERSION_CHARACTERS]
        if self._found.protocol_mode == "legacy" and self._found.server_version != version:
            protocol_mode = "auto"  # another version may support the newer protocol
        if settings.protocol == "legacy":
            protocol_mode = "auto"  # set in the configuration, not found by probing
        self.protocol_mode = protocol_mode
        self._found = replace(
            self._found,
            tools=found.tools,
            description=describe_server(server.description, server.instructions, redactor),
            protocol=session.protocol,
            protocol_mode=protocol_mode,
            server_version=version,
            left_out=found.left_out,
            problems=found.problems,
            stored_at=time.time(),
        )
        await self._store()
        self.digests = {tool.name: tool.digest for tool in found.tools}

    async def update_tools(self, session: Session, settings: ServerSettings) -> None:
        """List the tools again."""
        found, before = await self.list_tools(session), self._found
        if found != ToolsFound(before.tools, before.left_out, before.problems):
            await self.take_tools(found, session, settings, self.protocol_mode)

    async def update_offers(self, session: Session) -> None:
        """List the resources and prompts."""
        found, before = await list_offers(session, self._deps.redactor().value), self._found
        if found != OffersFound(before.resources, before.prompts, before.offer_problems):
            self._found = replace(
                before, resources=found.resources, prompts=found.prompts, offer_problems=found.problems
            )
            await self._store()

    async def _store(self) -> None:
        await self._deps.cache.put(self._name, self._fingerprint, self._found)

    def published(
        self, settings: ServerSettings, state: UpstreamState, protocol: str | None, error: str | None
    ) -> UpstreamListing:
        """The listing of an upstream in this state, with the tools that the settings select."""
        found = self._found
        common = UpstreamListing(
            name=self._name,
            state=state,
            description=settings.description or found.description,
            protocol=protocol,
            error=error if state in _STATES_WITH_ERROR else None,
        )
        if state is UpstreamState.DISABLED:
            return replace(common, last_tools=tuple(tool.name for tool in found.tools))
        return replace(
            common,
            tools=tuple(_as_set(tool, settings) for tool in found.tools if settings.tools.selects(tool.name)),
            left_out=found.left_out,
            problems=(*found.problems, *found.offer_problems),
            resources=found.resources,
            prompts=found.prompts,
        )


def _as_set(tool: ToolDefinition, settings: ServerSettings) -> ToolDefinition:
    """The effects in the settings go before the annotations."""
    stated = settings.effect_of(tool.name)
    return tool if stated is None else replace(tool, effect=EFFECTS_OF_SETTINGS[stated])
