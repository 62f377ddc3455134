"""The MCP server that hosts connect to: serves the meta-tools over stdio or streamable HTTP.

Built on `mcp.server.mcpserver.MCPServer`, called FastMCP before mcp 2. Arguments are checked here, so that an error
names the right ones; our errors become text here, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
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

from codemode_server.domain.errors import CodemodeError, MetaToolError
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.principals import Session
from codemode_server.front.host_requests import HostRequests, features_of, input_required
from codemode_server.front.instructions import instructions
from codemode_server.front.sessions import Sessions
from codemode_server.front.tools.registry import (
    Answer,
    Changed,
    MetaToolSpec,
    Progress,
    ToolArguments,
    meta_tools,
)
from codemode_server.sandbox.guest.similar_names import similar_name

MAX_CHARACTERS = 20_000
"""Maximum length of an argument, such as a path or a query, that answers quote."""
_MAX_UNKNOWN = 5
"""Maximum number of unknown arguments that one answer names."""
_MAX_QUOTED = 100
_MAX_URI = 2_000

if TYPE_CHECKING:
    from codemode_server.front.configured_meta_tools import ConfiguredMetaTools
    from codemode_server.front.unconfigured import Unconfigured

    MetaTools = ConfiguredMetaTools | Unconfigured


_MAX_SESSIONS = 256
"""As many as `front/http.py` has; what is sent to one that has ended is dropped."""
_SEND_S = 5.0
"""A host that does not read its stream must not keep the others waiting."""


class Announcements:
    """The sessions that have asked for a list, each with its way to the host."""

    def __init__(self) -> None:
        self._sessions: dict[str, ServerSession] = {}

    def note(self, session: Session, request: ServerRequestContext[object, object] | None) -> None:
        """The session has asked for a list in this request."""
        if request is None or session.is_ephemeral or request.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        self._sessions.pop(session.session_id, None)
        self._sessions[session.session_id] = request.session  # the latest last
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    async def send(self, changed: Changed) -> None:
        """Tell all of them that a list has changed."""
        async with anyio.create_task_group() as tasks:
            for session in list(self._sessions.values()):
                tasks.start_soon(_send, session, changed)


async def _send(session: ServerSession, changed: Changed) -> None:
    with anyio.move_on_after(_SEND_S), suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        if changed == "tools":
            await session.send_tool_list_changed()
        else:
            await session.send_prompt_list_changed()


class FrontServer(MCPServer[None]):
    """Serves meta-tools as MCP. `on_connected` is called with the features of a host when it connects, and with each
    request after that; `server_names` are for the instructions."""

    def __init__(
        self,
        tools: MetaTools | None = None,
        *,
        version: str,
        on_connected: Callable[[frozenset[Feature]], None],
        server_names: str = "",
        given: list[dict[str, Any]] | None = None,
    ) -> None:
        """`tools`: None if they come later (`serve`); until then calls wait. `given`: the answer to `tools/list`, if it
        is fixed already (`Opening.definitions`)."""
        self._sessions = Sessions()
        super().__init__(
            "codemode-server",
            title="codemode-server",
            instructions=instructions(server_names),
            version=version,
            log_level="WARNING",
            middleware=[_Handshake(on_connected), _remember_request],
        )
        self._lowlevel_server.middleware.insert(0, continue_host_trace)
        self._given = given
        self._tools: MetaTools | None = None
        self._is_there = anyio.Event()
        self._announcements = Announcements()
        # Over HTTP, MCPServer gives no way to say that changes are announced.
        self._lowlevel_server.create_initialization_options = partial(  # type: ignore[method-assign]
            self._lowlevel_server.create_initialization_options,
            NotificationOptions(tools_changed=True, prompts_changed=True),
        )
        if tools is not None:
            self.serve(tools)

    def serve(self, tools: MetaTools) -> None:
        """Serve these from now on; they may be replaced later."""
        tools.on_change(self._announce)
        self._tools = tools
        self._is_there.set()

    async def _present(self) -> MetaTools:
        await self._is_there.wait()
        assert self._tools is not None  # noqa: S101 - `serve` has been called
        return self._tools

    async def _definitions(self, session: Session) -> list[dict[str, Any]]:
        if self._tools is None and self._given:
            return self._given
        return await (await self._present()).definitions(session, self._given)

    async def run_streams(self, received: TextIOBase, sent: TextIOBase) -> None:
        """Serve one host over these, in place of standard input and output."""
        files = [anyio.wrap_file(cast("TextIO", file)) for file in (received, sent)]
        async with stdio_server(*files) as (read_stream, write_stream):
            server = self._lowlevel_server
            await server.run(read_stream, write_stream, server.create_initialization_options())

    async def list_tools(self) -> list[McpTool]:
        session = self._session_that_lists()
        return [McpTool.model_validate(tool) for tool in await self._definitions(session)]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        session, progress = self._sessions.session_of(context), _progress(context)
        host = HostRequests(context)
        try:
            if (spec := meta_tools().get(name)) is None:
                tools = await self._present()
                await tools.definitions(session, self._given)
                answer = await tools.call_direct(name, arguments, session, progress, host)
            else:
                checked = _checked(spec, arguments)
                tools = await self._present()
                answer = await tools.call(spec, checked, session, progress, host)
        except CodemodeError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)
        if answer.input_requests:
            return input_required(answer.input_requests, answer.state)
        return CallToolResult(
            content=[*_text_blocks(answer), *answer.blocks],
            structured_content=answer.content or None if tools.has_structured_content else None,
            is_error=answer.is_error,
        )

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents]:
        if len(str(uri)) > _MAX_URI:
            raise ResourceNotFoundError(f"a URI here has at most {_MAX_URI:,} characters")
        try:
            return [await (await self._present()).read_resource(str(uri), self._sessions.session_of(context))]
        except CodemodeError as error:
            raise ResourceNotFoundError(str(error)) from error

    async def list_prompts(self) -> list[McpPrompt]:
        self._session_that_lists()
        return [McpPrompt.model_validate(prompt) for prompt in await (await self._present()).prompts()]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult:
        session, progress = self._sessions.session_of(context), _progress(context)
        try:
            host = HostRequests(context)
            return await (await self._present()).get_prompt(name, arguments or {}, session, progress, host)
        except CodemodeError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error

    def _session_that_lists(self) -> Session:
        """The session of the request, to which changes are announced from now on."""
        session = self._sessions.session_of_request(_request.get())
        self._announcements.note(session, _request.get())
        return session

    async def _announce(self, changed: Changed) -> None:
        await self._subscriptions.publish(ToolsListChanged() if changed == "tools" else PromptsListChanged())
        await self._announcements.send(changed)


def _text_blocks(answer: Answer) -> list[TextContent]:
    return [TextContent(type="text", text=answer.text)] if answer.text or not answer.blocks else []


_request: ContextVar[ServerRequestContext[Any, Any] | None] = ContextVar("_request", default=None)
"""The request that is being answered: `MCPServer.list_tools` is not given it."""


async def _remember_request(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    token = _request.set(ctx)
    try:
        return await call_next(ctx)
    finally:
        _request.reset(token)


_HANDSHAKE_METHODS = ("initialize", "server/discover")


class _Handshake:
    """Middleware that reports when the host has had its first answer; work that would delay that answer starts then."""

    def __init__(self, on_connected: Callable[[frozenset[Feature]], None]) -> None:
        self._on_connected = on_connected

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method not in _HANDSHAKE_METHODS:
            self._report(ctx)  # it has its answer, or its protocol needs none
        try:
            return await call_next(ctx)
        finally:
            self._report(ctx)

    def _report(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._on_connected(features_of(ctx.session.client_capabilities))


def _progress(context: Context[None, Any] | None) -> Progress:
    async def report(done: float, total: float | None, message: str) -> None:
        if context is not None:
            # A host that closed the stream in the meantime is no reason to end the program.
            try:
                await context.report_progress(done, total, message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    return report


def _checked(spec: MetaToolSpec[Any], arguments: dict[str, Any]) -> ToolArguments:
    """The arguments of a meta-tool. Quotations of them in messages are cut: an argument can be megabytes."""
    name = spec.name
    for field, value in arguments.items():
        if field not in spec.unbounded_arguments and isinstance(value, str) and len(value) > MAX_CHARACTERS:
            problem = f"{_quoted(field)} has {len(value):,} characters, more than {MAX_CHARACTERS:,}"
            raise MetaToolError(f"{name}: {problem}. It takes {spec.parameters}.")
    known = list(spec.arguments.model_fields)
    few = {field: arguments[field] for field in known if field in arguments}
    few |= islice(((field, value) for field, value in arguments.items() if field not in few), _MAX_UNKNOWN)
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
    of_http = _extracted(_headers(ctx), trace_context.get_current())
    token = trace_context.attach(_extracted(ctx.meta, of_http))
    try:
        return await call_next(ctx)
    finally:
        trace_context.detach(token)


def _headers(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, str] | None:
    return None if ctx.request is None else ctx.request.headers


def _extracted(carrier: Mapping[str, Any] | None, before: trace_context.Context) -> trace_context.Context:
    """The context in a carrier that anyone may have written, on top of another."""
    try:
        return propagate.extract(carrier, before) if carrier else before
    except (ValueError, TypeError):
        return before
