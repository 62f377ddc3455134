"""One open MCP session: sends requests as plain dicts, returns answers unvalidated, and reports the session's end.

The only file that uses private parts of mcp 2.3. `ClientSession.call_tool` and `list_tools` validate answers, and fail
as a whole if one part is wrong: an off-schema tool, an unknown content type, an `outputSchema` without
`structuredContent`. The dispatcher below them hands out the answer as it came, but the envelope of each era (`_meta`
and headers) is put on by `ClientSession._stamp`, and only `_absorb_tool_listing` makes it send the arguments that a
2026-07-28 server expects as HTTP headers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio

from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.tools import ToolDefinition
from codemode_server.off_loop import is_large, run_sized
from codemode_server.upstreams._messages import NOT_TAKEN

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientSession, MessageHandlerFnT
    from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.message import SessionMessage

_READ_S = 5.0
"""How long the next message waits while a large result is read, so that large results don't pile up in memory."""
LIST_IS = "its list of tools is "
"""Beginning of the error for a list that was refused."""
_MAX_INSTRUCTIONS_CHARACTERS = 100_000
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

        self.lost = anyio.Event()
        self._dispatcher = _watched_dispatcher(streams, self.lost)

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
        answer: Answer = await self._dispatcher.answer(method, data["params"], options)
        return answer

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


def _watched_dispatcher(streams: TransportStreams, lost: anyio.Event) -> Any:
    """A dispatcher of mcp that reports its end and reads large results one at a time; mcp is imported only now."""
    import mcp_types as types
    from mcp.shared.dispatcher import coerce_request_id
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    class WatchedDispatcher(JSONRPCDispatcher):
        """Sets `lost` when its loop ends, which a `ClientSession` does not report. A too large number in a progress
        notification does not end the loop. A large result is read before the next message is taken."""

        def __init__(self, *streams: Any) -> None:
            super().__init__(*streams)
            self._being_read: dict[int, anyio.Event] = {}
            """By the identity of the result."""

        async def answer(self, method: str, params: dict[str, Any], options: CallOptions) -> Answer:
            result = await super().send_raw_request(method, params, options)
            return Answer(result, self._being_read.pop(id(result), None))

        async def send_raw_request(
            self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
        ) -> dict[str, Any]:
            """For requests of the session itself, whose results mcp validates on the event loop."""
            result = await super().send_raw_request(method, params, opts, **more)
            is_read = self._being_read.pop(id(result), None)
            if is_read is not None:
                is_read.set()
                result = _without_large_parts(result)
            return result

        async def _dispatch(self, item: SessionMessage | Exception, *rest: Any) -> None:
            await super()._dispatch(item, *rest)
            result = getattr(getattr(item, "message", None), "result", None)
            if (is_read := self._being_read.get(id(result))) is not None:
                with anyio.move_on_after(_READ_S):
                    await is_read.wait()
                self._being_read.pop(id(result), None)
                # mcp's loop holds on to the message until the next one comes.
                item.message.result = {}  # type: ignore[union-attr]

        def _resolve_pending(self, request_id: types.RequestId | None, outcome: Any) -> None:
            is_awaited = request_id is not None and coerce_request_id(request_id) in self._pending
            if is_awaited and is_large(outcome):
                self._being_read[id(outcome)] = anyio.Event()
            super()._resolve_pending(request_id, outcome)

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

        def _dispatch_notification(self, msg: types.JSONRPCNotification, *rest: Any) -> None:
            if msg.method == "notifications/progress" and msg.params is not None:
                msg = msg.model_copy(update={"params": _with_floats(msg.params)})
            super()._dispatch_notification(msg, *rest)

    return WatchedDispatcher(*streams)


def _without_large_parts(result: dict[str, Any]) -> dict[str, Any]:
    """The result of a handshake without what makes it large; of long instructions the beginning is left."""
    instructions = result.get("instructions")
    small = {name: value for name, value in result.items() if not is_large(value)}
    if isinstance(instructions, str):
        small["instructions"] = instructions[:_MAX_INSTRUCTIONS_CHARACTERS]
    return small


def _with_floats(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with infinity for each integer that is too large for a float: mcp converts them in its loop."""
    return {
        name: math.inf if isinstance(value, int) and abs(value) > sys.float_info.max else value
        for name, value in params.items()
    }


def is_end(error: BaseException | None) -> bool:
    """Whether an `MCPError` is the one that mcp raises when the connection has ended.

    Compared by text, since servers use its code, -32000, for errors of their own.
    """
    return getattr(error, "message", None) == "Connection closed"


def is_broken_off(error: BaseException) -> bool:
    """Whether an `MCPError` means that streamable HTTP lost only this answer, and the connection is still open."""
    return str(getattr(error, "message", "")).startswith(("SSE stream ended ", "SSE stream failed"))
