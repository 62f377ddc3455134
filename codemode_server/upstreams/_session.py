"""mcp's session and dispatcher for one upstream, with what they lack.

The session declares what the host can answer, and passes on what the upstream asks. The dispatcher reports its end, has
large results read one at a time, and takes the trace context out of requests without `tracing.mcp`. Uses private parts
of mcp 2.3, and imports mcp; `_link` imports this module when the first session is made.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.dispatcher import CallOptions, DispatchContext, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import MessageMetadata, SessionMessage
from mcp.shared.transport_context import TransportContext
from opentelemetry import propagate
from pydantic import TypeAdapter, ValidationError

from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.support.off_loop import is_large
from codemode_server.upstreams._link import Answer
from codemode_server.upstreams.repairs import handshake

OnInput = Callable[[InputRequest], Awaitable[dict[str, Any]]]
_RESULT: TypeAdapter[types.InputResponse] = TypeAdapter(types.InputResponse)
_READ_S = 5.0
"""How long the next message waits while a large result is read, so that large results don't pile up in memory."""
_MAX_INSTRUCTIONS_CHARACTERS = 100_000


def client_capabilities(features: frozenset[Feature]) -> types.ClientCapabilities:
    """Capabilities declared to an upstream for these features."""
    elicitation = types.ElicitationCapability(
        form=types.FormElicitationCapability() if Feature.ELICITATION in features else None,
        url=types.UrlElicitationCapability() if Feature.URL in features else None,
    )
    return types.ClientCapabilities(
        elicitation=elicitation if features & {Feature.ELICITATION, Feature.URL} else None,
        sampling=types.SamplingCapability() if Feature.SAMPLING in features else None,
        roots=types.RootsCapability() if Feature.ROOTS in features else None,
    )


class UpstreamSession(ClientSession):
    """Answers requests of the upstream by `on_input`."""

    def __init__(self, *, features: frozenset[Feature], on_input: OnInput, **rest: Any) -> None:
        super().__init__(**rest)
        self._features = features
        self._on_input = on_input

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        return client_capabilities(self._features)

    async def _on_request(
        self, dctx: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        if is_large(params):  # mcp would validate it on the event loop
            raise MCPError(types.INVALID_PARAMS, "the request is too large")
        return await super()._on_request(dctx, method, params)

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: types.InputRequest
    ) -> types.InputResponse | types.ErrorData:
        data = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            answer = await self._on_input(InputRequest(request.method, data.get("params") or {}))
            return _RESULT.validate_python(answer)
        except InputRefused as refusal:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(refusal))
        except ValidationError:
            return types.ErrorData(code=types.INTERNAL_ERROR, message="the host's answer is not valid")


class WatchedDispatcher(JSONRPCDispatcher):
    """Sets `lost` when its loop ends, which a `ClientSession` does not report.

    A progress notification with a number that is too large for a float does not end the loop. After a large result the
    next message waits until that has been read.
    """

    def __init__(self, streams: TransportStreams, lost: anyio.Event, is_traced: Callable[[], bool]) -> None:
        super().__init__(*streams)
        self._lost = lost
        self._is_traced = is_traced
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
        return handshake(result) if method in ("initialize", "server/discover") else result

    async def _write(self, message: types.JSONRPCMessage, metadata: MessageMetadata = None) -> None:
        if isinstance(message, types.JSONRPCRequest) and not self._is_traced():
            meta = message.params.get("_meta") if message.params else None
            if isinstance(meta, dict):
                for name in propagate.get_global_textmap().fields:
                    meta.pop(name, None)
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
        is_awaited = request_id is not None and coerce_request_id(request_id) in self._pending
        if is_awaited and is_large(outcome):
            self._being_read[id(outcome)] = anyio.Event()
        super()._resolve_pending(request_id, outcome)

    async def run(self, *args: Any, **options: Any) -> None:
        try:
            await super().run(*args, **options)
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
