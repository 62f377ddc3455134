"""One open MCP session: sends requests as plain dicts, returns answers unvalidated, and reports the session's end.

Only this file and `_session` use private parts of mcp 2.3. `ClientSession.call_tool`
and `list_tools` validate answers, and fail as a whole if one part is wrong: an off-schema tool, an unknown content
type, an `outputSchema` without `structuredContent`. The dispatcher below them returns the answer as it came, but
`ClientSession._stamp` adds the envelope of each protocol version (`_meta` and headers), and only
`_absorb_tool_listing` makes it send the arguments that a 2026-07-28 server expects as HTTP headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.tools import ToolDefinition
from codemode_server.support.off_loop import run_sized

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientSession, MessageHandlerFnT
    from mcp.shared.dispatcher import CallOptions, ProgressFnT

    from codemode_server.upstreams._session import OnInput

T = TypeVar("T")


class Answer:
    """The result of a request, as it came."""

    def __init__(self, result: dict[str, Any], is_read: anyio.Event | None = None) -> None:
        """`is_read` is set once it was read; None for a small one."""
        self._result = result
        self._is_read = is_read

    @property
    def requires_input(self) -> bool:
        """True for a result of protocol 2026-07-28 that asks for input: the request is repeated with the answers."""
        return self._result.get("resultType") == "input_required"

    async def read(self, function: Callable[[dict[str, Any]], T]) -> T:
        """Applies `function` to the result; in a thread if it is large. Called once."""
        result, self._result = self._result, {}
        try:
            return await run_sized(self._is_read is not None, function, result)
        finally:
            if self._is_read is not None:
                self._is_read.set()


class Link:
    """A session before or after its negotiation. Enter `session` to run it; `lost` is set when it has ended."""

    def __init__(
        self,
        streams: TransportStreams,
        on_message: MessageHandlerFnT,
        on_input: OnInput,
        features: frozenset[Feature] = frozenset(),
        is_traced: Callable[[], bool] = lambda: True,
    ) -> None:
        """`features` are declared to the upstream, whose requests `on_input` answers. `is_traced`: whether requests
        carry the trace context."""
        import mcp_types as types

        from codemode_server import __version__
        from codemode_server.upstreams._session import UpstreamSession, WatchedDispatcher

        self.lost = anyio.Event()
        self.features = features
        """May be replaced in protocol 2026-07-28, where each request declares them."""
        self._dispatcher = WatchedDispatcher(streams, self.lost, is_traced)
        self.session: ClientSession = UpstreamSession(
            features=features,
            on_input=on_input,
            dispatcher=self._dispatcher,
            message_handler=on_message,
            client_info=types.Implementation(name="codemode-server", version=__version__),
        )

    @property
    def is_modern(self) -> bool:
        """True if the session speaks a protocol without handshake (2026-07-28)."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        progress: ProgressFnT | None = None,
        features: frozenset[Feature] | None = None,
    ) -> Answer:
        """Send a request; its result is to be read soon. Cancelling this cancels the request at the server. `features`:
        what is declared with this request in protocol 2026-07-28; None: those of the link. Raises `MCPError`: the
        server answered with an error, or the connection ended."""
        data: dict[str, Any] = {"method": method, "params": params}
        options: CallOptions = {}
        self.session._stamp(data, options)
        if self.is_modern:
            from mcp_types import CLIENT_CAPABILITIES_META_KEY

            from codemode_server.upstreams._session import client_capabilities

            declared = client_capabilities(self.features if features is None else features)
            data["params"]["_meta"][CLIENT_CAPABILITIES_META_KEY] = declared.model_dump(
                by_alias=True, mode="json", exclude_none=True
            )
        if progress is not None:
            options["on_progress"] = progress
        return await self._dispatcher.answer(method, data["params"], options)

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
    """True if an `MCPError` is the one that mcp raises when the connection has ended.

    Compared by text, since servers use its code, -32000, for errors of their own.
    """
    return getattr(error, "message", None) == "Connection closed"


def is_broken_off(error: BaseException) -> bool:
    """True if an `MCPError` means that streamable HTTP lost only this answer, and the connection is still open."""
    return str(getattr(error, "message", "")).startswith(("SSE stream ended ", "SSE stream failed"))
