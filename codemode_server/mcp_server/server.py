"""The MCP server that hosts connect to: serves the meta-tools, and the tools and prompts of servers that hosts get.

It serves before the product is there: requests wait for `set_ready` or `set_failed`. Errors of ours become text here.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal, cast

import anyio
import mcp.types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codemode_server import __version__
from codemode_server.config.settings import Settings
from codemode_server.domain.errors import CodemodeError, MetaToolError, SettingsError
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.principals import Principal, Session
from codemode_server.mcp_server.arguments import checked
from codemode_server.mcp_server.blocks import resource
from codemode_server.mcp_server.callers import Callers
from codemode_server.mcp_server.host_requests import HostRequests, features_of
from codemode_server.mcp_server.host_trace import continue_host_trace
from codemode_server.mcp_server.instructions import INSTRUCTIONS
from codemode_server.mcp_server.offered_tools import OfferedTools, unknown_tool, unlisted
from codemode_server.mcp_server.opening import CAPABILITIES
from codemode_server.mcp_server.product import Product, ToolContext
from codemode_server.mcp_server.rendering import SCHEME
from codemode_server.mcp_server.tools.registry import Answer, annotations_of, definitions, meta_tools
from codemode_server.support.private_cipher import derived_key
from codemode_server.support.text import clean, clean_line

logger = logging.getLogger(__name__)

DIRECT_TOOL = "direct tool"
"""Name under which exchanges with tools of servers are recorded."""
_MAX_FAILURE_LINES = 4
"""Lines of an error that are shown; `config check` shows all."""
_MAX_SESSIONS = 256
"""As many as `mcp_server/http.py` has; what is sent to one that has ended is dropped."""
_SEND_S = 5.0
"""A host that does not read its stream must not keep the others waiting."""
_ANNOUNCED_AFTER_S = 0.2
"""A server that starts lists in several steps; the host is told once."""
_connection: ContextVar[Session | None] = ContextVar("session of a connection", default=None)
Definitions = list[dict[str, Any]]
Request = ServerRequestContext[Any, Any]


class _NotStarted(MetaToolError):
    """The product can't start."""


class McpServer(Server[Any]):
    """Serves one product, whose host it tells when lists change."""

    def __init__(self, given: Definitions | None = None, secret: str | None = None) -> None:
        """`given`: the answer to `tools/list`, if it is fixed already (`Opening.definitions`). `secret`: `state.key`;
        without it, the keys of sessions and of states of requests end with the process."""
        self._subscriptions = InMemorySubscriptionBus()
        super().__init__(
            "codemode-server",
            title="codemode-server",
            instructions=INSTRUCTIONS,
            version=__version__,
            lifespan=_announcing,
            on_list_tools=self._list_tools,
            on_list_resources=_no_resources,
            on_list_resource_templates=_no_resource_templates,
            on_list_prompts=self._list_prompts,
            on_subscriptions_listen=ListenHandler(self._subscriptions),
        )
        self.add_request_handler("tools/call", types.CallToolRequestParams, self._call_tool)
        self.add_request_handler("prompts/get", types.GetPromptRequestParams, self._get_prompt)
        self.add_request_handler("resources/read", types.ReadResourceRequestParams, self._read_resource)
        self.middleware.insert(0, continue_host_trace)
        self.request_states = RequestStateSecurity(keys=[_key(secret, "request states")])
        self.middleware.append(RequestStateBoundary(self.request_states, default_audience=self.name))
        self.middleware.append(self._take_request)
        self._callers = Callers(_key(secret, "sessions"))
        self._offered = OfferedTools(given)
        self._listeners: dict[str, ServerSession] = {}
        """The sessions that have asked for a list, each with its way to the host; the latest last."""
        self._features: frozenset[Feature] = frozenset()
        self._folder = ""  # where the first host works
        self.connected, self._is_ready, self._is_settled = anyio.Event(), anyio.Event(), anyio.Event()
        """`connected`: a host has had its first answer. Settled is ready or failed."""
        self.address = ""
        """Where other replicas reach this server; empty over stdio."""
        self.is_draining = False
        """True if it accepts no requests any more; programs of those that it has accepted still start for a moment."""
        self._product: Product | None = None
        self._failure = ""
        """Why there are no tools."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *arguments: Any, **options: Any
    ) -> InitializationOptions:
        """As mcp makes them, and changes of tools and prompts are announced. Over HTTP mcp calls this without options,
        so they can't be passed in."""
        announced = NotificationOptions(tools_changed=True, prompts_changed=True)
        return super().create_initialization_options(announced, *arguments, **options)

    def set_ready(self, product: Product) -> None:
        """Serve this product from now on."""
        self._product = product
        if self.is_draining:
            self.drain()
        if self.connected.is_set():
            product.connect(self._features, self._folder)
        self._is_ready.set()
        self._is_settled.set()

    def set_failed(self, error: CodemodeError) -> None:
        """Serve only the reason why the product can't start, without servers and programs."""
        lines = clean(str(error)).splitlines()
        shown = [*lines[:_MAX_FAILURE_LINES], *(["…"] if len(lines) > _MAX_FAILURE_LINES else [])]
        head, tail = "No servers: codemode-server can't start. The user must fix this:", list[str]()
        if isinstance(error, SettingsError):
            head = "No servers: the configuration of codemode-server can't be used. The user must fix this:"
            tail = [
                "A saved correction is picked up without a restart; `codemode-server config check` shows all errors."
            ]
        self._product, self._failure = None, "\n".join([head, *shown, *tail])
        self._is_settled.set()

    def metrics_text(self, principal: Principal | None) -> str | None:
        """As `Product.metrics_text`."""
        return None if self._product is None else self._product.metrics_text(principal)

    async def why_not_ready(self) -> str:
        """Why it takes no programs now, in a few words that anybody may read; empty if it does."""
        if self.is_draining:
            return "draining"
        if self._product is None:
            return "the configuration can't be used" if self._failure else "starting"
        return await self._product.why_not_ready()

    def stop_accepting(self) -> None:
        """Accept no requests any more; `drain` follows once the programs of those accepted before have started."""
        self.is_draining = True

    def drain(self) -> None:
        """As `ExecutionService.drain`."""
        self.is_draining = True
        if self._product is not None:
            self._product.executions.drain()

    @property
    def has_live(self) -> bool:
        """True if any program is not settled."""
        return self._product is not None and self._product.executions.has_live

    def cancel_all(self) -> None:
        """As `ExecutionService.cancel_all`."""
        if self._product is not None:
            self._product.executions.cancel_all()

    async def run_connection(
        self, session: Session, received: anyio.AsyncFile[str], sent: anyio.AsyncFile[str]
    ) -> None:
        """Serve a host in this session, over these in place of standard input and output. `announce_changes` runs
        beside that, once for all hosts."""
        self._folder = self._folder or session.folder
        connection = _connection.set(session)
        try:
            async with stdio_server(received, sent) as (read_stream, write_stream):
                await self.run(read_stream, write_stream, self.create_initialization_options())
        finally:
            _connection.reset(connection)
            self._listeners.pop(session.session_id, None)

    async def wait_until_settled(self) -> None:
        """Wait until the product is there, or has failed."""
        await self._is_settled.wait()

    async def _ready(self) -> Product:
        await self.wait_until_settled()
        if self._product is None:
            raise _NotStarted(self._failure)
        return self._product

    async def _list_tools(self, request: Request, _: Any) -> types.ListToolsResult:
        session = self._session_that_lists(request)
        if self._product is None and not self._offered.given:
            await self._is_settled.wait()
        if self._product is None:
            listed = self._offered.given or definitions(Settings())
        else:
            listed = self._offered.of(session, self._product)
        return types.ListToolsResult.model_validate({"tools": listed})

    async def _call_tool(self, request: Request, params: types.CallToolRequestParams) -> dict[str, Any]:
        spec, given = meta_tools().get(params.name), params.arguments or {}
        try:
            arguments = None if spec is None else checked(spec, given)
            product = await self._ready()
            context = await self._context(product, request, params)
            session = context.caller.session
            self._offered.fix(session)
            if spec is None or arguments is None:
                answer = await self._call_direct(params.name, given, context)
            else:
                answer = await spec.answer(arguments, context)
            name, offered = spec.name if spec else DIRECT_TOOL, self._offered.last(session, product)
            for exchanges in product.exchanges:
                answer = await exchanges.take(name, given, answer, context.caller, offered)
            if answer.execution is not None:
                product.executions.note_answer(answer.execution, answer.text)
        except CodemodeError as error:
            is_shown = isinstance(error, _NotStarted) and spec is not None and spec.shows_failure
            return Answer(str(error), {}, is_error=not is_shown).as_result(has_structured_content=False)
        except Exception as error:
            logger.exception("internal error")
            text = f"internal error ({type(error).__name__}); the log of codemode-server has the details"
            return Answer(text, {}, is_error=True).as_result(has_structured_content=False)
        return answer.as_result(has_structured_content=product.config.settings.results.structured_content)

    async def _call_direct(self, name: str, arguments: dict[str, Any], context: ToolContext) -> Answer:
        """Call a tool of a server. Raises `MetaToolError` if this session was not offered one of that name."""
        product, caller = context.product, context.caller
        await product.tools.wait_for_listing()
        direct = self._offered.direct(caller.session, product)
        if name in direct and (tools := product.tools.direct_tools) is not None:
            return await tools.call(direct[name], arguments, context)
        refusals = product.refusals.for_principal(caller)
        raise MetaToolError(caller.redactor.text(unknown_tool(name, direct, product.tools.current(), refusals.of)))

    async def _read_resource(self, request: Request, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        """A stored result of an earlier program of the session."""
        uri = str(params.uri)
        try:
            context = await self._context(await self._ready(), request)
            if not uri.startswith(SCHEME):
                said = clean_line(uri, 200)
                raise MetaToolError(f"there is no resource {said!r}; if a server has it, a program reads it")
            read, owner = context.product.artifacts.read, context.caller.owner
            item, data = await anyio.to_thread.run_sync(read, owner, uri.removeprefix(SCHEME))
        except CodemodeError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from error
        contents = [resource(uri, item, data, context.caller.redactor)]
        return {"contents": contents, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def _list_prompts(self, request: Request, _: Any) -> types.ListPromptsResult:
        self._session_that_lists(request)
        await self._is_settled.wait()
        listed = [] if self._product is None else _prompts_of(self._product)
        return types.ListPromptsResult.model_validate({"prompts": listed})

    async def _get_prompt(self, request: Request, params: types.GetPromptRequestParams) -> dict[str, Any]:
        try:
            context = await self._context(await self._ready(), request)
            if (prompts := context.product.tools.prompts) is None:
                raise MetaToolError("no server has prompts")
            return await prompts.get(params.name, params.arguments or {}, context)
        except CodemodeError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error

    async def _context(
        self, product: Product, request: Request, params: types.CallToolRequestParams | None = None
    ) -> ToolContext:
        caller = self._callers.caller(request, product.config)
        if product.privacy is not None:
            await product.privacy.refresh(caller.principal)
        return ToolContext(caller, product, HostRequests(request, params, self.address))

    def _session_that_lists(self, request: Request) -> Session:
        """The session of the request, to which changes are announced from now on."""
        session = self._callers.session(request)
        if request.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS and not session.is_ephemeral:
            self._listeners.pop(session.session_id, None)
            self._listeners[session.session_id] = request.session
            if len(self._listeners) > _MAX_SESSIONS:
                del self._listeners[next(iter(self._listeners))]
        return session

    async def _take_request(self, ctx: Request, call_next: CallNext) -> HandlerResult:
        """Middleware that notices when the host has had its first answer; work that would delay that starts then."""
        is_first = ctx.method in ("initialize", "server/discover")
        if not is_first:
            self._take_host(ctx)  # it has its answer, or its protocol needs none
        if ctx.method == "subscriptions/listen":
            ctx = _without_resources(ctx)
        try:
            result = await call_next(ctx)
        finally:
            if is_first:
                self._take_host(ctx)
        if ctx.method == "server/discover" and isinstance(result, dict):
            result["capabilities"]["resources"] = CAPABILITIES["resources"]
        return result

    def _take_host(self, request: Request) -> None:
        features = features_of(request.session.client_capabilities)
        if not self.connected.is_set() or not features <= self._features:
            self._features |= features
            self.connected.set()
            if self._product is not None:
                self._product.connect(self._features, self._folder)

    async def announce_changes(self) -> None:
        """Tell hosts of tools of servers that were listed for the first time, of each change of the prompts, and of
        edited permissions that allow programs more or less, until cancelled."""
        await self._is_ready.wait()
        if (product := self._product) is not None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._announce_listings, product)
                tasks.start_soon(self._announce_permissions, product)

    async def _announce_permissions(self, product: Product) -> None:
        hints, revision = _hints(product), 0
        while True:
            revision = await product.config.wait_newer(revision)
            before, hints = hints, _hints(product)
            if hints != before:
                await self._announce("tools")

    async def _announce_listings(self, product: Product) -> None:
        waiting, prompts, revision = unlisted(product.tools.current()), _prompts_of(product), 0
        while True:
            revision = await product.tools.wait_newer(revision)
            await anyio.sleep(_ANNOUNCED_AFTER_S)
            still_waiting, before = waiting & unlisted(product.tools.current()), prompts
            prompts = _prompts_of(product)
            if still_waiting != waiting:
                waiting = still_waiting
                await self._announce("tools")
            if prompts != before:
                await self._announce("prompts")

    async def _announce(self, changed: Literal["tools", "prompts"]) -> None:
        await self._subscriptions.publish(ToolsListChanged() if changed == "tools" else PromptsListChanged())
        async with anyio.create_task_group() as tasks:
            for session in list(self._listeners.values()):
                tasks.start_soon(_send, session, changed)


def _key(secret: str | None, purpose: str) -> bytes:
    return secrets.token_bytes(32) if secret is None else derived_key(secret, purpose)


@asynccontextmanager
async def _announcing(server: Server[Any]) -> AsyncIterator[Session | None]:
    """The time in which a server serves. Gives the session if it is that of one connection of several."""
    if (session := _connection.get()) is not None:
        yield session
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cast("McpServer", server).announce_changes)
        yield None
        tasks.cancel_scope.cancel()


async def _send(session: ServerSession, changed: Literal["tools", "prompts"]) -> None:
    with anyio.move_on_after(_SEND_S), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await (session.send_tool_list_changed() if changed == "tools" else session.send_prompt_list_changed())


def _hints(product: Product) -> list[dict[str, bool]]:
    return [annotations_of(spec, product.config.settings) for spec in meta_tools().values()]


def _prompts_of(product: Product) -> Definitions:
    return [] if product.tools.prompts is None else product.tools.prompts.definitions()


async def _no_resources(_request: Request, _: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


async def _no_resource_templates(_request: Request, _: Any) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[])


def _without_resources(request: Request) -> Request:
    """The request without subscriptions to resources, which mcp acknowledges and of which none of ours changes."""
    wanted = (request.params or {}).get("notifications")
    if not isinstance(wanted, Mapping):
        return request
    taken = {name: value for name, value in wanted.items() if not name.startswith("resource")}
    return replace(request, params={**(request.params or {}), "notifications": taken})
