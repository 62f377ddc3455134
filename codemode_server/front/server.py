"""The MCP server that hosts connect to: the four meta-tools, over stdio or streamable HTTP.

Built on `mcp.server.mcpserver.MCPServer`, what was FastMCP before mcp 2. Arguments are checked here, so that a wrong
one is answered with what is right; an error of ours is turned into text here, once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.types import CallToolResult, ContentBlock, TextContent
from mcp.types import Tool as McpTool
from pydantic import AnyUrl, ValidationError

from codemode_server.errors import CodemodeError, MetaToolError
from codemode_server.front.meta_tools import (
    ARGUMENTS,
    INSTRUCTIONS,
    ExecuteCodeArguments,
    ListDirArguments,
    ReadToolArguments,
    SearchToolsArguments,
    definitions,
)
from codemode_server.front.sessions import Sessions
from codemode_server.model import Session

Progress = Callable[[float, str], Awaitable[None]]
"""How far an execution is (it only grows), and what it does, in a few words."""


@dataclass(frozen=True, slots=True)
class ProgramAnswer:
    """What a program came to."""

    text: str
    content: dict[str, Any]
    is_error: bool
    blocks: list[ContentBlock]
    """Images and files beside the text."""


class MetaTools(Protocol):
    """What the front needs of the rest: one method a meta-tool, each giving text and structured content.

    All raise `CodemodeError` with a message for the model.
    """

    async def list_dir(self, path: str) -> tuple[str, dict[str, Any]]: ...

    async def read_tool(self, path: str) -> tuple[str, dict[str, Any]]: ...

    async def search_tools(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None, session: Session
    ) -> tuple[str, dict[str, Any]]:
        """`session`: who will call what is found."""

    async def execute_code(
        self, code: str, timeout_s: float | None, session: Session, progress: Progress
    ) -> ProgramAnswer:
        """`session`: whose program it is."""

    async def read_resource(self, uri: str, session: Session) -> ReadResourceContents:
        """What an earlier program of the session gave back, as a resource."""


class FrontServer(MCPServer[None]):
    """Serves `MetaTools` as MCP."""

    def __init__(self, meta_tools: MetaTools, *, version: str, on_connected: Callable[[], None]) -> None:
        super().__init__(
            "codemode-server",
            title="codemode-server",
            instructions=INSTRUCTIONS,
            version=version,
            log_level="WARNING",
            middleware=[_Handshake(on_connected)],
        )
        self._meta_tools = meta_tools
        self._sessions = Sessions()
        self._definitions = definitions()

    async def list_tools(self) -> list[McpTool]:
        return self._definitions

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult:
        try:
            checked = _checked(name, arguments)
            if isinstance(checked, ExecuteCodeArguments):
                return await self._execute(checked, context)
            text, content = await self._dispatch(checked, context)
        except CodemodeError as error:
            return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=content)

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents]:
        try:
            return [await self._meta_tools.read_resource(str(uri), self._sessions.session_of(context))]
        except CodemodeError as error:
            raise ResourceNotFoundError(str(error)) from error

    async def _execute(self, arguments: ExecuteCodeArguments, context: Context[None, Any] | None) -> CallToolResult:
        session = self._sessions.session_of(context)
        answer = await self._meta_tools.execute_code(arguments.code, arguments.timeout, session, _progress(context))
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text), *answer.blocks],
            structured_content=answer.content,
            is_error=answer.is_error,
        )

    async def _dispatch(self, arguments: object, context: Context[None, Any] | None) -> tuple[str, dict[str, Any]]:
        match arguments:
            case ListDirArguments(path=path):
                return await self._meta_tools.list_dir(path)
            case ReadToolArguments(path=path):
                return await self._meta_tools.read_tool(path)
            case SearchToolsArguments(query=query, detail_level=level, server=server, effect=effect, limit=limit):
                session = self._sessions.session_of(context)
                return await self._meta_tools.search_tools(query, level, server, limit, effect, session)
        raise MetaToolError(f"unknown arguments {arguments!r}")


_HANDSHAKE_METHODS = ("initialize", "server/discover")


class _Handshake:
    """Middleware that tells when the host has had its first answer, so that nothing before it is held up by us."""

    def __init__(self, on_connected: Callable[[], None]) -> None:
        self._on_connected = on_connected

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method not in _HANDSHAKE_METHODS:
            self._on_connected()  # it has its answer, or its protocol needs none
        try:
            return await call_next(ctx)
        finally:
            self._on_connected()


def _progress(context: Context[None, Any] | None) -> Progress:
    async def report(done: float, message: str) -> None:
        if context is not None:
            # A host that closed the stream in the meantime is no reason to end the program.
            try:
                await context.report_progress(done, None, message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    return report


def _checked(name: str, arguments: dict[str, Any]) -> object:
    model = ARGUMENTS.get(name)
    if model is None:
        near = get_close_matches(name, ARGUMENTS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ARGUMENTS)}."
        raise MetaToolError(
            f"There is no tool {name!r}; {hint} Tools of the servers behind are called from a program in execute_code."
        )
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        takes = ", ".join(field + ("" if info.is_required() else "?") for field, info in model.model_fields.items())
        problems = "; ".join(_problem(detail, list(model.model_fields)) for detail in error.errors())
        raise MetaToolError(f"{name}: {problems}. It takes {takes}.") from error


def _problem(detail: Any, known: list[str]) -> str:
    field = ".".join(str(part) for part in detail["loc"])
    match detail["type"]:
        case "missing":
            return f"{field!r} is required"
        case "extra_forbidden":
            near = get_close_matches(field, known, n=1)
            return f"there is no argument {field!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
        case _:
            return f"{field!r}: {detail['msg'][0].lower()}{detail['msg'][1:]}"
