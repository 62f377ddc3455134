"""Meta-tools of a running product: calls go to the handlers of the registry, resources to the stored results."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import GetPromptResult

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool
from codemode_server.config.live import LiveConfig, RequestContext
from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.principals import Session
from codemode_server.features.direct_tools.calls import call_direct_tool
from codemode_server.features.direct_tools.tools import TARGET, direct_definitions, direct_tools
from codemode_server.features.prompts.prompts import get_prompt, prompt_definitions
from codemode_server.features.savings.exchanges import DIRECT_TOOL, Exchanges
from codemode_server.mcp_server.blocks import contents_of
from codemode_server.mcp_server.host_requests import HostRequests
from codemode_server.mcp_server.listing import Listing, listing_of
from codemode_server.mcp_server.rendering import SCHEME
from codemode_server.mcp_server.tools.registry import (
    Answer,
    Changed,
    MetaToolSpec,
    Services,
    ToolArguments,
    ToolContext,
    annotations_of,
    definitions,
    meta_tools,
)
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.search.usage_store import ToolName, Use
from codemode_server.support.text import clean_line, first_few

logger = logging.getLogger(__name__)

_MAX_SESSIONS = 256
"""Lists remembered; one is about 6 KB. A session that is forgotten gets the list as it is then."""
_ANNOUNCED_AFTER_S = 0.2
"""A server that starts lists in several steps; the host is told once."""

_MAX_NAME_CHARACTERS = 200
_MAX_LISTED = 20
_MAX_IMPORTS = 3
_HOST_PREFIX = re.compile(r"mcp_{1,2}")

Definitions = list[dict[str, Any]]


@dataclass(slots=True)
class _Offered:
    """The list of tools of one session."""

    definitions: Definitions
    made_from: object
    unlisted: set[str] = field(default_factory=set)
    """Raw names of servers that may have direct tools and had none in their last listing."""


class MetaTools:
    """Methods raise `CodemodeError` with a message for the model.

    The list of tools stays the same for a whole session, since hosts put it before everything that they send to a
    model: its first request fixes it, but for the annotations of our tools, which models don't read. Requests
    without a session (HTTP, protocol 2026-07-28) get the same list until the tools of the servers or the settings
    change.
    """

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
        self.has_structured_content = config.settings.results.structured_content
        """True if the host gets structured content and output schemas."""
        self._exchanges = exchanges
        self._offered: dict[str, _Offered] = {}
        self._given: Definitions | None = None
        self._announce: Callable[[Changed], Awaitable[None]] | None = None

    def attach(self, given: Definitions | None, announce: Callable[[Changed], Awaitable[None]]) -> None:
        """`given`: what the session was told before the product was there. `announce` is called when servers that were
        never listed have direct tools, and when prompts change."""
        self._given, self._announce = given, announce

    def servers(self) -> Listing:
        """The text about the servers for the descriptions and instructions of a session that begins now."""
        config = self._config
        return listing_of(self._services.catalog(), config.settings, self._uses(), config.redactor.text)

    def definitions(self, session: Session) -> Definitions:
        """The answer to `tools/list`; the same for all requests of one session, but for direct tools of servers that
        were never listed before."""
        made_from = (self._services.catalog().version, self._config.settings) if session.is_ephemeral else None
        offered = self._offered.pop(_key(session), None)
        if offered is None or offered.made_from != made_from:
            offered = self._new(made_from)
        self._offered[_key(session)] = offered  # the latest last
        if len(self._offered) > _MAX_SESSIONS:
            del self._offered[next(iter(self._offered))]
        if offered.unlisted:
            self._add_listed(offered)
        offered.definitions = [self._with_hints(it) for it in offered.definitions]
        return offered.definitions

    def _with_hints(self, definition: dict[str, Any]) -> dict[str, Any]:
        """The definition with the annotations that the permissions give it now."""
        spec = meta_tools().get(definition["name"])
        return definition | ({"annotations": annotations_of(spec, self._config.settings)} if spec else {})

    def _new(self, made_from: object) -> _Offered:
        settings, given = self._config.settings, self._given
        exposing = {name for name, server in settings.servers.items() if server.may_have_direct_tools}
        if not exposing:
            return _Offered(given or definitions(settings, self.servers()), made_from)
        unlisted = {name for name in exposing if not self._has_tools(name)}
        if given is not None:  # by what was known then
            listed = {it["_meta"][TARGET][0] for it in given if _is_direct(it)}
            return _Offered(given, made_from, unlisted | (exposing - listed))
        direct, problems = self._direct_definitions()
        for problem in problems:
            logger.warning("%s", problem)
        return _Offered([*definitions(settings, self.servers()), *direct], made_from, unlisted)

    def _direct_definitions(self) -> tuple[Definitions, list[str]]:
        return direct_definitions(direct_tools(self._services.catalog(), self._config.settings), self._config.redactor)

    def _add_listed(self, offered: _Offered) -> None:
        """Add the tools of servers that were listed for the first time since the list was made. No other tool is added,
        changed or taken away, so that hosts can cache prompts."""
        listed = set(filter(self._has_tools, offered.unlisted))
        if not listed:
            return
        offered.unlisted -= listed
        names = {it["name"] for it in offered.definitions}
        direct, _ = self._direct_definitions()
        added = [it for it in direct if it["_meta"][TARGET][0] in listed and it["name"] not in names]
        offered.definitions = [*offered.definitions, *added]

    def _has_tools(self, server: str) -> bool:
        return any(it.raw_name == server and it.tools for it in self._services.catalog().servers)

    async def announce_changes(self) -> None:
        """Announce direct tools of servers that were listed for the first time, each change of the prompts, and edited
        permissions that allow programs more or less, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._announce_listings)
            tasks.start_soon(self._announce_permissions)

    async def _announce_permissions(self) -> None:
        hints, revision = self._hints(), 0
        while True:
            revision = await self._config.wait_newer(revision)
            before, hints = hints, self._hints()
            if hints != before and self._announce is not None:
                await self._announce("tools")

    def _hints(self) -> list[dict[str, bool]]:
        return [annotations_of(spec, self._config.settings) for spec in meta_tools().values()]

    async def _announce_listings(self) -> None:
        servers = self._config.settings.servers
        waiting = {name for name, it in servers.items() if it.may_have_direct_tools and not self._has_tools(name)}
        prompts, revision = self.prompts(), 0
        while True:
            revision = await self._services.wait_for_newer_listings(revision)
            await anyio.sleep(_ANNOUNCED_AFTER_S)
            listed, now = set(filter(self._has_tools, waiting)), self.prompts()
            is_new = now != prompts
            waiting, prompts = waiting - listed, now
            if listed and self._announce is not None:
                await self._announce("tools")
            if is_new and self._announce is not None:
                await self._announce("prompts")

    def prompts(self) -> Definitions:
        """The answer to `prompts/list`: the prompts of upstreams as they are now."""
        return prompt_definitions(self._services.catalog(), self._config.redactor)

    async def get_prompt(
        self, name: str, arguments: dict[str, str], session: Session, host: HostRequests
    ) -> GetPromptResult:
        return await get_prompt(name, arguments, await self._context(session, host))

    async def call_direct(self, name: str, arguments: dict[str, Any], session: Session, host: HostRequests) -> Answer:
        """Call a direct tool. Raises if this session was not offered one of that name."""
        await self._services.wait_for_listing()
        direct = {it["name"]: it for it in self.definitions(session) if _is_direct(it)}
        context = await self._context(session, host)
        if name not in direct:
            refusals = self._services.refusals(context.request)
            advice = unknown_tool(name, direct, self._services.catalog(), refusals.of)
            raise MetaToolError(context.request.redactor.text(advice))
        server, tool = direct[name]["_meta"][TARGET]
        answer = await call_direct_tool(server, tool, arguments, context)
        return await self._exchanges.take(DIRECT_TOOL, arguments, answer, context.request, self._offered_to(session))

    async def call(
        self, spec: MetaToolSpec[Any], arguments: ToolArguments, session: Session, host: HostRequests
    ) -> Answer:
        context = await self._context(session, host)
        try:
            answer = await spec.handle(arguments, context)
        except CodemodeError as error:
            answer = Answer(str(error), {}, is_error=True)
        given = arguments.model_dump(exclude_none=True)
        return await self._exchanges.take(spec.name, given, answer, context.request, self._offered_to(session))

    def _offered_to(self, session: Session) -> Definitions:
        offered = self._offered.get(_key(session))
        return definitions(self._config.settings) if offered is None else offered.definitions

    async def _context(self, session: Session, host: HostRequests) -> ToolContext:
        return ToolContext(await self._request(session), self._services, host)

    async def _request(self, session: Session) -> RequestContext:
        """The context of a request, whose redactor knows what other products have found until now."""
        request = RequestContext.of(session, self._config)
        await self._services.refresh_privacy(request.principal)
        return request

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        """A stored result of an earlier program of the session, as a resource."""
        if not uri.startswith(SCHEME):
            raise MetaToolError(
                f"there is no resource {clean_line(uri, 200)!r}; if a server has it, a program reads it"
            )
        request = await self._request(session)
        item, data = await anyio.to_thread.run_sync(
            self._services.artifacts.read, request.owner, uri.removeprefix(SCHEME)
        )
        return contents_of(item, data, request.redactor)


def _key(session: Session) -> str:
    return "" if session.is_ephemeral else session.session_id


def _is_direct(definition: dict[str, Any]) -> bool:
    return TARGET in definition["_meta"]


def unknown_tool(name: str, direct: Collection[str], catalog: Catalog, refusal_of: RefusalOf) -> str:
    """Message for a call of an unknown tool, with advice, in a line or two. `direct` are the direct tools that the host
    has."""
    name = name[:_MAX_NAME_CHARACTERS]
    head = f"There is no tool {clean_line(name, 100)!r}"
    offered = [*meta_tools(), *direct]
    bare = _HOST_PREFIX.sub("", name, count=1) if _HOST_PREFIX.match(name) else name
    meant = next((it for it in offered if bare == it or _ends_with(bare, it)), None)
    found = [] if meant else _tools(bare, catalog)
    if meant := meant or (None if found else similar_name(bare, offered)):
        return f"{head}; did you mean {meant}?"
    if len(found) == 1 and (refusal := refusal_of(*found[0])):
        return refusal.message(f"{found[0][0].name}.{found[0][1].name}")
    if imports := [tool.import_line for server, tool in found[:_MAX_IMPORTS] if not refusal_of(server, tool)]:
        return f"{head}; call it from a program in execute_code: {' or '.join(imports)}"
    return (
        f"{head}; there are {first_few(offered, _MAX_LISTED)}. Other tools of the servers are called from a program "
        "in execute_code; search_tools finds them."
    )


def _ends_with(name: str, offered: str) -> bool:
    """True if only the name of this server is before it (`codemode__execute_code`), or only that of its own server is
    left out (`read_graph` of `memory__read_graph`)."""
    before = name.removesuffix(offered)
    is_ours = before != name and "codemode" in before and not before[-1].isalnum()
    return is_ours or offered.endswith(f"__{name}")


def _tools(name: str, catalog: Catalog) -> list[tuple[Server, Tool]]:
    """The tools that a name can mean: `server__tool` with any separator, else that of any server."""
    for server in sorted(catalog.servers, key=lambda it: -len(it.name)):
        rest = name.removeprefix(server.name)
        if rest != name and (tool := server.by_name.get(rest.lstrip("_./:"))):
            return [(server, tool)]
    return [(server, tool) for server in catalog.servers if (tool := server.by_name.get(name))]
