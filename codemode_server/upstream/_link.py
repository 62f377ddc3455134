"""One open MCP session, spoken raw: requests and answers as plain dicts, and word of its end.

The only file with private parts of mcp 2.3. `ClientSession.call_tool` and `list_tools` validate answers and fail whole
for what is wrong with a part: an off-schema tool, an unknown content type, an `outputSchema` without
`structuredContent`. The dispatcher below them hands out the answer as it came, but the envelope of each era (`_meta`
and headers) is put on by `ClientSession._stamp`, and the arguments a 2026-07-28 server wants as HTTP headers are known
to it only through `_absorb_tool_listing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import anyio

from codemode_server.model import JsonSchema, ToolDefinition

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientSession, MessageHandlerFnT
    from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest


class Progress(Protocol):
    """Told of a call's progress: how far, of how much, and a message."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class Link:
    """A session before or after its negotiation. Enter `session` to run it; `lost` is set when it has ended."""

    def __init__(self, streams: TransportStreams, on_message: MessageHandlerFnT) -> None:
        import mcp_types as types
        from mcp.client.session import ClientSession
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

        from codemode_server import __version__

        self.lost = anyio.Event()
        lost = self.lost

        class WatchedDispatcher(JSONRPCDispatcher):
            """Says when its loop ends; a `ClientSession` has no word for it."""

            async def run(
                self,
                on_request: OnRequest,
                on_notify: OnNotify,
                on_notify_intercept: OnNotifyIntercept | None = None,
                *,
                task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
            ) -> None:
                try:
                    await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
                finally:
                    lost.set()

        self._dispatcher = WatchedDispatcher(*streams)
        # No callbacks: no sampling, no roots, no elicitation is declared, and mcp declines each of them.
        self.session: ClientSession = ClientSession(
            dispatcher=self._dispatcher,
            message_handler=on_message,
            client_info=types.Implementation(name="codemode-server", version=__version__),
        )

    @property
    def is_modern(self) -> bool:
        """Whether the session speaks a protocol without handshake (2026-07-28)."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def request(self, method: str, params: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Send a request and return its result as it came. Cancelling this cancels the request at the server.

        Raises:
            MCPError: the server answered with an error, or the connection ended.
        """
        data: dict[str, Any] = {"method": method, "params": params}
        options: CallOptions = {}
        self.session._stamp(data, options)
        if progress is not None:
            options["on_progress"] = progress
        return await self._dispatcher.send_raw_request(method, data["params"], options)

    def refuse_schema(self, schema: JsonSchema) -> str | None:
        """Why a client has to leave a tool with this input schema alone, or None. 2026-07-28 says so of some."""
        from mcp.shared.inbound import find_invalid_x_mcp_header

        if not self.is_modern:
            return None
        try:
            reason = find_invalid_x_mcp_header(schema)
        except (TypeError, ValueError, AttributeError, RecursionError):
            return "its inputSchema can't be read"
        return None if reason is None else f"invalid x-mcp-header ({reason})"

    def remember(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Let the session know the tools, so that it sends the HTTP headers their schemas ask for."""
        import mcp_types as types

        if self.is_modern:
            listed = [types.Tool(name=tool.name, input_schema=tool.input_schema) for tool in tools]
            # The 2026-07-28 result has two required cache fields, of no use here.
            result = types.ListToolsResult(tools=listed, ttl_ms=0, cache_scope="private")
            self.session._absorb_tool_listing(result, complete=True)


def is_end(error: BaseException | None) -> bool:
    """Whether an `MCPError` is mcp's own word for the end of the connection.

    By its text: its code, -32000, is also the one that servers like best for errors of their own.
    """
    return getattr(error, "message", None) == "Connection closed"


def is_broken_off(error: BaseException) -> bool:
    """Whether an `MCPError` says that streamable HTTP lost this one answer; the connection goes on."""
    return str(getattr(error, "message", "")).startswith(("SSE stream ended ", "SSE stream failed"))
