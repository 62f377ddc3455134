"""One open MCP session: sends requests as plain dicts, returns answers unvalidated, and reports the session's end.

Only this file and `_watched_dispatcher` use private parts of mcp 2.3. `ClientSession.call_tool` and `list_tools`
validate answers, and fail as a whole if one part is wrong: an off-schema tool, an unknown content type, an
`outputSchema` without `structuredContent`. The dispatcher below them returns the answer as it came, but
`ClientSession._stamp` adds the envelope of each protocol version (`_meta` and headers), and only
`_absorb_tool_listing` makes it send the arguments that a 2026-07-28 server expects as HTTP headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio

from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.tools import ToolDefinition
from codemode_server.off_loop import run_sized
from codemode_server.upstreams._messages import NOT_TAKEN

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientSession, MessageHandlerFnT
    from mcp.shared.dispatcher import CallOptions

LIST_IS = "its list of tools is "
"""Beginning of the error for a list that was refused."""
T = TypeVar("T")


class Progress(Protocol):
    """Called for each progress notification of a call: progress, total and message."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class Answer:
    """The result of a request, as it came."""

    def __init__(self, result: dict[str, Any], is_read: anyio.Event | None = None) -> None:
        """`is_read` is set once it was read; None for a small one."""
        self._result = result
        self._is_read = is_read

    async def read(self, function: Callable[[dict[str, Any]], T]) -> T:
        """What `function` makes of it; in a thread if it is large. Called once."""
        result, self._result = self._result, {}
        try:
            return await run_sized(self._is_read is not None, function, result)
        finally:
            if self._is_read is not None:
                self._is_read.set()


class Link:
    """A session before or after its negotiation. Enter `session` to run it; `lost` is set when it has ended."""

    def __init__(
        self, streams: TransportStreams, on_message: MessageHandlerFnT, *, declares_features: bool = False
    ) -> None:
        """`declares_features`: elicitation, sampling and roots, each of which is refused; only for listing tools."""
        import mcp_types as types
        from mcp.client.session import ClientSession

        from codemode_server import __version__
        from codemode_server.upstreams._watched_dispatcher import WatchedDispatcher

        self.lost = anyio.Event()
        self._dispatcher = WatchedDispatcher(streams, self.lost)

        async def refuse(*_: Any) -> types.ErrorData:
            return types.ErrorData(code=types.INVALID_REQUEST, message="not supported")

        # mcp declares what there is a callback for, and declines the rest.
        feature: Any = refuse if declares_features else None
        self.session: ClientSession = ClientSession(
            dispatcher=self._dispatcher,
            message_handler=on_message,
            client_info=types.Implementation(name="codemode-server", version=__version__),
            elicitation_callback=feature,
            sampling_callback=feature,
            list_roots_callback=feature,
        )

    @property
    def is_modern(self) -> bool:
        """Whether the session speaks a protocol without handshake (2026-07-28)."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def request(self, method: str, params: dict[str, Any], progress: Progress | None = None) -> Answer:
        """Send a request; its result is to be read soon. Cancelling this cancels the request at the server.

        Raises:
            MCPError: the server answered with an error, or the connection ended.
        """
        data: dict[str, Any] = {"method": method, "params": params}
        options: CallOptions = {}
        self.session._stamp(data, options)
        if progress is not None:
            options["on_progress"] = progress
        return await self._dispatcher.answer(method, data["params"], options)

    async def tools_page(self, cursor: str | None) -> Answer:
        """One page of `tools/list`, from `cursor` on; no tools where the server does not have the method.

        Raises:
            MCPError: as `request`.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import METHOD_NOT_FOUND

        try:
            return await self.request("tools/list", {} if cursor is None else {"cursor": cursor})
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and cursor is None:  # a server of prompts or resources only
                return Answer({"tools": []})
            if error.code in NOT_TAKEN:
                raise MCPError(error.code, f"{LIST_IS}{error.message.partition(';')[0]}") from error
            raise

    def refuse_schema(self, schema: JsonSchema) -> str | None:
        """Why a client must not use a tool with this input schema (a rule of protocol 2026-07-28), or None."""
        from mcp.shared.inbound import find_invalid_x_mcp_header

        if not self.is_modern:
            return None
        try:
            reason = find_invalid_x_mcp_header(schema)
        except (TypeError, ValueError, AttributeError, RecursionError):
            return "its inputSchema can't be read"
        return None if reason is None else f"invalid x-mcp-header ({reason})"

    def remember(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Pass the tools to the session, so that it sends the HTTP headers that their schemas ask for."""
        import mcp_types as types

        if self.is_modern:
            listed = [types.Tool(name=tool.name, input_schema=tool.input_schema) for tool in tools]
            # The 2026-07-28 result has two required cache fields, of no use here.
            result = types.ListToolsResult(tools=listed, ttl_ms=0, cache_scope="private")
            self.session._absorb_tool_listing(result, complete=True)


def is_end(error: BaseException | None) -> bool:
    """Whether an `MCPError` is the one that mcp raises when the connection has ended.

    Compared by text, since servers use its code, -32000, for errors of their own.
    """
    return getattr(error, "message", None) == "Connection closed"


def is_broken_off(error: BaseException) -> bool:
    """Whether an `MCPError` means that streamable HTTP lost only this answer, and the connection is still open."""
    return str(getattr(error, "message", "")).startswith(("SSE stream ended ", "SSE stream failed"))
