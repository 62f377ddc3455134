"""The dispatcher of an upstream's session: mcp's, which also reports its end and has large results read one at a time.

Uses private parts of mcp 2.3, and imports mcp; `_link` imports this module when the first session is made.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.client._transport import TransportStreams
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest, coerce_request_id
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import MessageMetadata, SessionMessage

from codemode_server.off_loop import is_large
from codemode_server.upstreams._link import Answer
from codemode_server.upstreams._request_spans import RequestSpans

_READ_S = 5.0
"""How long the next message waits while a large result is read, so that large results don't pile up in memory."""
_MAX_INSTRUCTIONS_CHARACTERS = 100_000


class WatchedDispatcher(JSONRPCDispatcher):
    """Sets `lost` when its loop ends, which a `ClientSession` does not report.

    A progress notification with a number that is too large for a float does not end the loop. After a large result the
    next message waits until that has been read.
    """

    def __init__(self, streams: TransportStreams, lost: anyio.Event, spans: RequestSpans) -> None:
        super().__init__(*streams)
        self._lost = lost
        self._spans = spans
        self.protocol: str | None = None
        """The version of the protocol, once it is agreed on; for the spans of requests."""
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

    async def _write(self, message: types.JSONRPCMessage, metadata: MessageMetadata = None) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._spans.begin(str(message.id), message.method, message.params, self.protocol)
        await super()._write(message, metadata)

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
        self._spans.answered(str(request_id), outcome)
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
            self._lost.set()

    def _dispatch_notification(self, msg: types.JSONRPCNotification, *rest: Any) -> None:
        if msg.method == "notifications/progress" and msg.params is not None:
            msg = msg.model_copy(update={"params": _with_floats(msg.params)})
        super()._dispatch_notification(msg, *rest)


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
