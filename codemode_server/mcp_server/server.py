"""The MCP server that hosts connect to: serves the meta-tools over stdio or streamable HTTP.

Built on `mcp.server.mcpserver.MCPServer`, called FastMCP before mcp 2. Arguments are checked here, so that an error
names the right ones; our errors become text here, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from io import TextIOBase
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO, cast

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    TextContent,
)
from mcp.types import Prompt as McpPrompt
from mcp.types import Tool as McpTool
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from opentelemetry import context as trace_context
from opentelemetry import propagate
from pydantic import AnyUrl, ValidationError

from codemode_server.config.settings import Settings
from codemode_server.domain.errors import CodemodeError, MetaToolError, SettingsError
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.principals import Session
from codemode_server.mcp_server.host_requests import HostRequests, features_of, input_required
from codemode_server.mcp_server.instructions import instructions
from codemode_server.mcp_server.opening import CAPABILITIES
from codemode_server.mcp_server.sessions import Sessions
from codemode_server.mcp_server.tools.registry import Changed, MetaToolSpec, ToolArguments, definitions, meta_tools
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.support.text import clean

MAX_CHARACTERS = 20_000
"""Maximum length of an argument, such as a path or a query, that answers quote."""
_MAX_UNKNOWN = 5
"""Maximum number of unknown arguments that one answer names."""
_MAX_QUOTED = 100
_MAX_FAILURE_LINES = 4
"""Lines of an error that are shown; `config check` shows all."""
_MAX_SESSIONS = 256
"""As many as `mcp_server/http.py` has; what is sent to one that has ended is dropped."""
_SEND_S = 5.0
"""A host that does not read its stream must not keep the others waiting."""

if TYPE_CHECKING:
    from codemode_server.mcp_server.meta_tools import MetaTools


class _NotStarted(MetaToolError):
    """The product can't start."""


class FrontServer(MCPServer[None]):
    """Serves meta-tools as MCP. `on_connected` is called with the features of a host when it connects, and with each
    request after that; `server_names` are for the instructions."""

    def __init__(
        self,
        *,
        version: str,
        on_connected: Callable[[frozenset[Feature]], None],
        server_names: str = "",
        given: list[dict[str, Any]] | None = None,
    ) -> None:
        """Calls wait for `set_ready` or `set_failed`. `given`: the answer to `tools/list`, if it is fixed already
        (`Opening.definitions`)."""
        self._sessions = Sessions()
        super().__init__(
            "codemode-server",
            title="codemode-server",
            instructions=instructions(server_names),
            version=version,
            log_level="WARNING",
            middleware=[partial(_report_connected, on_connected), _remember_request, _without_resource_changes],
        )
        self._lowlevel_server.middleware.insert(0, continue_host_trace)
        self._given = given
        self._tools: MetaTools | None = None
        self._failure = ""
        """Why there are no tools."""
        self._is_settled = anyio.Event()
        self._listeners: dict[str, ServerSession] = {}
        """The sessions that have asked for a list, each with its way to the host; the latest last."""
        # Over HTTP, MCPServer gives no way to say that changes are announced.
        self._lowlevel_server.create_initialization_options = partial(  # type: ignore[method-assign]
            self._lowlevel_server.create_initialization_options,
            NotificationOptions(tools_changed=True, prompts_changed=True),
        )

    def set_ready(self, tools: MetaTools) -> None:
        """Serve these from now on."""
        tools.attach(self._given, self._announce)
        self._tools = tools
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
        self._tools, self._failure = None, "\n".join([head, *shown, *tail])
        self._is_settled.set()

    async def _ready(self) -> MetaTools:
        await self._is_settled.wait()
        if self._tools is None:
            raise _NotStarted(self._failure)
        return self._tools

    async def run_streams(self, received: TextIOBase, sent: TextIOBase) -> None:
        """Serve one host over these, in place of standard input and output."""
        files = [anyio.wrap_file(cast("TextIO", file)) for file in (received, sent)]
        async with stdio_server(*files) as (read_stream, write_stream):
            server = self._lowlevel_server
            await server.run(read_stream, write_stream, server.create_initialization_options())

    async def list_tools(self) -> list[McpTool]:
        session = self._session_that_lists()
        if self._tools is None and not self._given:
            await self._is_settled.wait()
        given = self._given or definitions(Settings())
        listed = given if self._tools is None else self._tools.definitions(session)
        return [McpTool.model_validate(tool) for tool in listed]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        session, host = self._sessions.session_of(_request.get()), HostRequests(context)
        spec = meta_tools().get(name)
        try:
            if spec is None:
                tools = await self._ready()
                answer = await tools.call_direct(name, arguments, session, host)
            else:
                checked = _checked(spec, arguments)
                tools = await self._ready()
                answer = await tools.call(spec, checked, session, host)
        except CodemodeError as error:
            is_shown = isinstance(error, _NotStarted) and spec is not None and spec.shows_failure
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=not is_shown)
        if answer.input_requests:
            return input_required(answer.input_requests, answer.state)
        text = [TextContent(type="text", text=answer.text)] if answer.text or not answer.blocks else []
        return CallToolResult(
            content=[*text, *answer.blocks],
            structured_content=answer.content or None if tools.has_structured_content else None,
            is_error=answer.is_error,
        )

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents]:
        try:
            return [await (await self._ready()).read_resource(str(uri), self._sessions.session_of(_request.get()))]
        except CodemodeError as error:
            raise ResourceNotFoundError(str(error)) from error

    async def list_prompts(self) -> list[McpPrompt]:
        self._session_that_lists()
        await self._is_settled.wait()
        listed = self._tools.prompts() if self._tools is not None else []
        return [McpPrompt.model_validate(prompt) for prompt in listed]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult:
        session, host = self._sessions.session_of(_request.get()), HostRequests(context)
        try:
            return await (await self._ready()).get_prompt(name, arguments or {}, session, host)
        except CodemodeError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error

    def _session_that_lists(self) -> Session:
        """The session of the request, to which changes are announced from now on."""
        request = _request.get()
        session = self._sessions.session_of(request)
        is_legacy = request is not None and request.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        if request is not None and is_legacy and not session.is_ephemeral:
            self._listeners.pop(session.session_id, None)
            self._listeners[session.session_id] = request.session
            if len(self._listeners) > _MAX_SESSIONS:
                del self._listeners[next(iter(self._listeners))]
        return session

    async def _announce(self, changed: Changed) -> None:
        await self._subscriptions.publish(ToolsListChanged() if changed == "tools" else PromptsListChanged())
        async with anyio.create_task_group() as tasks:
            for session in list(self._listeners.values()):
                tasks.start_soon(_send, session, changed)


async def _send(session: ServerSession, changed: Changed) -> None:
    with anyio.move_on_after(_SEND_S), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if changed == "tools":
            await session.send_tool_list_changed()
        else:
            await session.send_prompt_list_changed()


_request: ContextVar[ServerRequestContext[Any, Any] | None] = ContextVar("_request", default=None)
"""The request that is being answered: `MCPServer.list_tools` is not given it."""


async def _remember_request(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    token = _request.set(ctx)
    try:
        return await call_next(ctx)
    finally:
        _request.reset(token)


async def _without_resource_changes(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware: mcp declares and acknowledges subscriptions to resources, of which we have none that change."""
    wanted = (ctx.params or {}).get("notifications") if ctx.method == "subscriptions/listen" else None
    if isinstance(wanted, Mapping):
        taken = {name: value for name, value in wanted.items() if not name.startswith("resource")}
        ctx = replace(ctx, params={**(ctx.params or {}), "notifications": taken})
    result = await call_next(ctx)
    if ctx.method == "server/discover" and isinstance(result, dict):
        result["capabilities"]["resources"] = CAPABILITIES["resources"]
    return result


async def _report_connected(
    on_connected: Callable[[frozenset[Feature]], None], ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Middleware that reports when the host has had its first answer; work that would delay that answer starts then."""
    if ctx.method not in ("initialize", "server/discover"):
        on_connected(features_of(ctx.session.client_capabilities))  # it has its answer, or its protocol needs none
    try:
        return await call_next(ctx)
    finally:
        on_connected(features_of(ctx.session.client_capabilities))


def _checked(spec: MetaToolSpec[Any], arguments: dict[str, Any]) -> ToolArguments:
    """The arguments of a meta-tool. Quotations of them in messages are cut: an argument can be megabytes."""
    name = spec.name
    for field, value in arguments.items():
        if field not in spec.unbounded_arguments and isinstance(value, str) and len(value) > MAX_CHARACTERS:
            problem = f"{_quoted(field)} has {len(value):,} characters, more than {MAX_CHARACTERS:,}"
            raise MetaToolError(f"{name}: {problem}. It takes {spec.parameters}.")
    fields = spec.arguments.model_fields
    known = list(fields)
    # Some models fill in every argument: an optional one that is empty, null, "null", "None" or 0 counts as not given.
    nothing = {it for it, given in arguments.items() if not given or given in ("null", "none", "None")}
    few = {it: arguments[it] for it in known if it in arguments and (it not in nothing or fields[it].is_required())}
    few |= islice(((field, value) for field, value in arguments.items() if field not in fields), _MAX_UNKNOWN)
    try:
        checked: ToolArguments = spec.arguments.model_validate(few)
    except ValidationError as error:
        problems = "; ".join(_problem(detail, known) for detail in error.errors(include_url=False, include_input=False))
        raise MetaToolError(f"{name}: {problems}. It takes {spec.parameters}.") from error
    return checked


def _problem(detail: Any, known: list[str]) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    field = _quoted(name)
    match detail["type"]:
        case "missing":
            return f"{field} is required"
        case "extra_forbidden":
            meant = similar_name(name, known)
            return f"there is no argument {field}" + (f" (did you mean {meant!r}?)" if meant else "")
        case _:
            return f"{field}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…")


async def continue_host_trace(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware outside mcp's span, which mcp makes a child of the `traceparent` in `_meta`: the HTTP header takes its
    place where `_meta` has none, and the host's `baggage`, which mcp drops, is carried on."""
    headers = None if ctx.request is None else ctx.request.headers
    of_http = _extracted(headers, trace_context.get_current())
    token = trace_context.attach(_extracted(ctx.meta, of_http))
    try:
        return await call_next(ctx)
    finally:
        trace_context.detach(token)


def _extracted(carrier: Mapping[str, Any] | None, before: trace_context.Context) -> trace_context.Context:
    """The context in a carrier that anyone may have written, on top of another."""
    try:
        return propagate.extract(carrier, before) if carrier else before
    except (ValueError, TypeError):
        return before
