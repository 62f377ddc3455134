"""Meta-tools of a running product: calls go to the handlers of the registry, resources to the stored results."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import GetPromptResult

from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.principals import Session
from codemode_server.front.blocks import artifact_name, contents_of
from codemode_server.front.direct_calls import call_direct_tool
from codemode_server.front.direct_tools import TARGET, direct_definitions, direct_tools
from codemode_server.front.exchanges import DIRECT_TOOL, Exchanges
from codemode_server.front.listing import Listing, listing_of
from codemode_server.front.meta_tools import definitions
from codemode_server.front.prompts import get_prompt, prompt_definitions
from codemode_server.front.tools.registry import (
    Answer,
    Changed,
    Host,
    MetaToolSpec,
    Progress,
    Services,
    ToolArguments,
    ToolContext,
)
from codemode_server.front.unknown_tools import unknown_tool
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.text import clean_line

logger = logging.getLogger(__name__)

_MAX_SESSIONS = 256
"""Lists remembered; one is about 6 KB. A session that is forgotten gets the list as it is then."""

_PROMPTS_AFTER_S = 0.2
"""A server that starts lists in several steps; the host is told once."""

Definitions = list[dict[str, Any]]


class ConfiguredMetaTools:
    """Those of a running product. Methods raise `CodemodeError` with a message for the model; `Unconfigured` has the
    same ones."""

    def __init__(
        self,
        services: Services,
        config: LiveConfig,
        uses: Callable[[], Mapping[ToolName, Use]],
        exchanges: Exchanges,
    ) -> None:
        """`uses` reads how often each tool was called, for the choice of the tools that descriptions name."""
        self._services = services
        self._config = config
        self._uses = uses
        self._structured_content = config.settings.results.structured_content
        self._exchanges = exchanges
        self._definitions = _SessionDefinitions()
        self._listeners: list[Callable[[Changed], Awaitable[None]]] = []

    @property
    def has_structured_content(self) -> bool:
        """True if the host gets structured content and output schemas."""
        return self._structured_content

    def servers(self) -> Listing:
        """The text about the servers for the descriptions and instructions of a session that begins now."""
        config = self._config
        return listing_of(self._services.catalog(), config.settings, self._uses(), config.redactor.text)

    async def definitions(self, session: Session, given: Definitions | None = None) -> Definitions:
        """The answer to `tools/list`; the same for all requests of one session, but for direct tools of servers that
        were never listed before. `given`: what the session was told before the product was there."""
        settings = self._config.settings
        offered = (self._services.catalog().version, settings)
        known = self._definitions.of(session, offered, lambda: self._new(given))
        if known.unlisted:
            self._add_listed(known)
        return known.definitions

    def _new(self, given: Definitions | None) -> _Offered:
        settings, catalog = self._config.settings, self._services.catalog()
        exposing = {name for name, server in settings.servers.items() if server.may_have_direct_tools}
        if not exposing:
            return _Offered(given or definitions(settings, self.servers()))
        unlisted = {name for name in exposing if not self._has_tools(name)}
        if given is not None:  # by what was known then
            return _Offered(given, unlisted | (exposing - {it["_meta"][TARGET][0] for it in given if _is_direct(it)}))
        found = direct_tools(catalog, settings)
        direct, problems = direct_definitions(found, self._config.redactor)
        for problem in problems:
            logger.warning("%s", problem)
        return _Offered([*definitions(settings, self.servers()), *direct], unlisted)

    def _add_listed(self, known: _Offered) -> None:
        """Add the tools of servers that were listed for the first time since the list was made. No other tool is added,
        changed or taken away, so that hosts can cache prompts."""
        listed = set(filter(self._has_tools, known.unlisted))
        if not listed:
            return
        known.unlisted -= listed
        names = {it["name"] for it in known.definitions}
        found = direct_tools(self._services.catalog(), self._config.settings)
        direct, _ = direct_definitions(found, self._config.redactor)
        added = [it for it in direct if it["_meta"][TARGET][0] in listed and it["name"] not in names]
        known.definitions = [*known.definitions, *added]

    def _has_tools(self, server: str) -> bool:
        return any(it.raw_name == server and it.tools for it in self._services.catalog().servers)

    def on_change(self, listener: Callable[[Changed], Awaitable[None]]) -> None:
        """Have `listener` called when servers that were never listed have direct tools, and when prompts change."""
        self._listeners.append(listener)

    async def announce_direct_tools(self) -> None:
        """Call the listeners until cancelled."""
        waiting = {name for name, server in self._config.settings.servers.items() if server.may_have_direct_tools}
        waiting -= {name for name in waiting if self._has_tools(name)}
        revision = 0
        while waiting:
            listed = set(filter(self._has_tools, waiting))
            if not listed:
                revision = await self._services.wait_for_newer_listings(revision)
            waiting -= listed
            if listed:
                for listener in self._listeners:
                    await listener("tools")

    async def announce_prompts(self) -> None:
        """Call the listeners after each change of the prompts, until cancelled."""
        known, revision = await self.prompts(), 0
        while True:
            revision = await self._services.wait_for_newer_listings(revision)
            await anyio.sleep(_PROMPTS_AFTER_S)
            if (now := await self.prompts()) != known:
                known = now
                for listener in self._listeners:
                    await listener("prompts")

    async def prompts(self) -> list[dict[str, Any]]:
        """The answer to `prompts/list`: the prompts of upstreams as they are now."""
        return prompt_definitions(self._services.catalog(), self._config.redactor)

    async def get_prompt(
        self, name: str, arguments: dict[str, str], session: Session, progress: Progress, host: Host
    ) -> GetPromptResult:
        return await get_prompt(
            name, arguments, ToolContext(await self._request(session), progress, self._services, host)
        )

    async def call_direct(
        self, name: str, arguments: dict[str, Any], session: Session, progress: Progress, host: Host
    ) -> Answer:
        """Call a direct tool. Raises if this session was not offered one of that name."""
        services = self._services
        await services.wait_for_listing()
        direct = {it["name"]: it for it in await self.definitions(session) if _is_direct(it)}
        if name not in direct:
            request = await self._request(session)
            refusals = services.refusals(request)
            catalog = services.catalog()
            advice = unknown_tool(name, direct, catalog, refusals.of)
            raise MetaToolError(request.redactor.text(advice))
        context = ToolContext(await self._request(session), progress, self._services, host)
        server, tool = direct[name]["_meta"][TARGET]
        answer = await call_direct_tool(server, tool, arguments, context)
        return await self._exchanges.take(DIRECT_TOOL, arguments, answer, session, self._offered_to(session))

    async def call(
        self, spec: MetaToolSpec[Any], arguments: ToolArguments, session: Session, progress: Progress, host: Host
    ) -> Answer:
        request = await self._request(session)
        given, offered = arguments.model_dump(exclude_none=True), self._offered_to(session)
        try:
            answer = await spec.handle(arguments, ToolContext(request, progress, self._services, host))
        except CodemodeError as error:
            self._exchanges.take_error(spec.name, given, str(error), session, offered)
            raise
        return await self._exchanges.take(spec.name, given, answer, session, offered)

    def _offered_to(self, session: Session) -> Definitions:
        return self._definitions.given_to(session) or definitions(self._config.settings)

    async def _request(self, session: Session) -> RequestContext:
        """The context of a request, whose redactor knows what other products have found until now."""
        request = RequestContext.of(session, self._config)
        await self._services.refresh_privacy(request.principal)
        return request

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        """A stored result of an earlier program of the session, as a resource."""
        name = artifact_name(uri)
        if name is None:
            raise MetaToolError(
                f"there is no resource {clean_line(uri, 200)!r}; if a server has it, a program reads it"
            )
        request = await self._request(session)
        item, data = await anyio.to_thread.run_sync(self._services.artifacts.read, request.owner, name)
        return contents_of(item, data, request.redactor)


def _is_direct(definition: dict[str, Any]) -> bool:
    return TARGET in definition["_meta"]


@dataclass(slots=True)
class _Offered:
    definitions: Definitions
    unlisted: set[str] = field(default_factory=set)
    """Raw names of servers that may have direct tools and had none in their last listing."""


class _SessionDefinitions:
    """Keeps the list of tools the same for a whole session, since hosts put it before everything that they send to a
    model.

    The first request of a session fixes its list. Requests without a session (HTTP, protocol 2026-07-28) get the same
    list until the tools of the servers or the settings change.
    """

    def __init__(self) -> None:
        self._of_sessions: dict[str, _Offered] = {}
        self._without_session: tuple[object, _Offered] | None = None

    def given_to(self, session: Session) -> Definitions | None:
        """The list of a session; None if it has none yet."""
        found = None if session.is_ephemeral else self._of_sessions.get(session.session_id)
        if session.is_ephemeral and self._without_session is not None:
            found = self._without_session[1]
        return None if found is None else found.definitions

    def of(self, session: Session, offered: object, build: Callable[[], _Offered]) -> _Offered:
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
