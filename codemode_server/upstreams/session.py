"""One open MCP session: its requests and their answers, what the server asks and announces, and its end.

Not mcp's `ClientSession`: that validates answers, and fails as a whole if one part is wrong, such as an off-schema tool
or an `outputSchema` without `structuredContent`. Here an answer is an object as it came, and goes straight to the
future that waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from opentelemetry import propagate, trace

from codemode_server import __version__
from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.input_requests import Feature
from codemode_server.domain.tools import ToolDefinition
from codemode_server.support.change_signal import ChangeSignal
from codemode_server.support.trace_provider import has_trace_provider
from codemode_server.upstreams.answers import Answer, ConnectionEnded, RequestFailed
from codemode_server.upstreams.repairs import Handshake, as_object, read_handshake
from codemode_server.upstreams.server_requests import result_for

if TYPE_CHECKING:
    from codemode_server.upstreams.connection import Connection

logger = logging.getLogger(__name__)

OnProgress = Callable[[float, float | None, str | None], None]
"""Takes a report: the progress, the total and a message."""
Headers = dict[str, str]

_HANDSHAKES = ("initialize", "server/discover")
"""Requests of whose cancellation the server is not told."""
_CHANGES = {
    "notifications/tools/list_changed": True,
    "notifications/resources/list_changed": False,
    "notifications/prompts/list_changed": False,
}
"""Whether tools have changed, and not resources or prompts."""
_CLIENT_INFO = {"name": "codemode-server", "version": __version__}
_READ_S = 5.0
"""How long the next message waits while a large result is read, so that large results don't pile up in memory."""
_CANCEL_S = 5.0
"""Longest wait for streams of mcp to take a cancellation."""
_MAX_ID_DIGITS = 20
_MAX_ANSWERS = 100
"""Requests of a server that are being answered; those that come meanwhile get an error at once."""
_MAX_REPLIES = 500
"""Answers and errors on their way; more requests are dropped, as those of a server that asks and does not read."""
_TOO_MANY = f"{_MAX_ANSWERS} requests are being answered; ask again later"
_TRACER = trace.get_tracer("mcp-python-sdk")
"""The name under which mcp's own client traces requests."""


class Channel(Protocol):
    """Carries the messages of one session over an open transport."""

    @property
    def has_headers(self) -> bool:
        """True if requests go with HTTP headers."""

    async def send(self, message: dict[str, Any], headers: Headers, *, is_urgent: bool = False) -> None:
        """Send a message; one that is urgent is not waited with while the server does not read. Raises
        `ConnectionEnded`."""

    async def deliver_to(self, session: Session) -> None:
        """Give the session each message that comes; returns once no more can come."""


@dataclass(slots=True)
class _Pending:
    """A request that waits for its answer."""

    outcome: asyncio.Future[Answer | RequestFailed]
    on_progress: OnProgress | None
    on_opened: Callable[[], None] | None


class Session:
    """A session before or after its negotiation, over a channel that is open."""

    def __init__(self, channel: Channel, owner: Connection, features: frozenset[Feature] = frozenset()) -> None:
        """`features` are declared to the server."""
        self.lost = anyio.Event()
        """Set once the session has ended, or has to."""
        self.features = features
        """May be replaced in protocol 2026-07-28, where each request declares them."""
        self.server = Handshake()
        self.is_modern = False
        """True if the session speaks a protocol without handshake (2026-07-28)."""
        self._channel = channel
        self._owner = owner
        self.protocol: str | None = None
        """The negotiated protocol version."""
        self._ids = itertools.count(1)
        self._pending: dict[Any, _Pending] = {}
        self._answering: dict[Any, anyio.CancelScope] = {}
        self.replies, self.replied = 0, ChangeSignal()
        """How many requests of the server are being answered, and a signal whenever one has been."""
        self._header_maps: dict[str, dict[tuple[str, ...], str]] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Receive messages while the block runs."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._receive)
            yield
            self._tasks.cancel_scope.cancel()

    _tasks: TaskGroup

    async def _receive(self) -> None:
        try:
            await self._channel.deliver_to(self)
        finally:
            self.lost.set()
            for pending in self._pending.values():
                _resolve(pending, ConnectionEnded())

    async def initialize(self) -> None:
        """Shake hands as protocol 2025-11-25 and older ones do. Raises as `request`."""
        answer = await self.request(
            "initialize",
            {
                "protocolVersion": LATEST_HANDSHAKE_VERSION,
                "capabilities": client_capabilities(self.features),
                "clientInfo": _CLIENT_INFO,
            },
        )
        self._adopt(await answer.read(read_handshake))
        await self._channel.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._version_header())

    async def discover(self, version: str) -> Handshake:
        """The answer to the probe for protocol 2026-07-28 and later. Raises as `request`."""
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: "server/discover"}
        answer = await self.request(
            "server/discover", {"_meta": {**_envelope(version, self.features)}}, headers=headers
        )
        return await answer.read(read_handshake)

    def adopt_modern(self, server: Handshake) -> bool:
        """Speak the newest modern version that the server offers; False if it offers none."""
        version = next((it for it in reversed(MODERN_PROTOCOL_VERSIONS) if it in server.offered), None)
        if version is None:
            return False
        self._adopt(server)
        self.protocol, self.is_modern = version, True
        return True

    def _adopt(self, server: Handshake) -> None:
        self.server, self.protocol, self.is_modern = server, server.version, False

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        features: frozenset[Feature] | None = None,
        *,
        on_opened: Callable[[], None] | None = None,
        headers: Headers | None = None,
    ) -> Answer:
        """Send a request, to whose parameters the envelope of the protocol is added; its result is to be read soon.
        Cancelling this cancels the request at the server. `features`: what is declared with this request in protocol
        2026-07-28; None: those of the session. `on_opened` is called once a stream of changes is open. Raises
        `RequestFailed`: the server answered with an error, or the session ended."""
        if self.lost.is_set():
            raise ConnectionEnded
        number = next(self._ids)
        request_id = number if on_opened is None else f"listen-{number}"
        if self.is_modern:
            params["_meta"] = {**_envelope(self.protocol or "", self.features if features is None else features)}
        if on_progress is not None:
            params.setdefault("_meta", {})["progressToken"] = request_id
        pending = _Pending(asyncio.get_running_loop().create_future(), on_progress, on_opened)
        self._pending[request_id] = pending
        span = self._start_span(method, params, request_id) if self._owner.deps.config.sends_trace_context else None
        try:
            if headers is None:
                headers = self._headers(method, params) if self._channel.has_headers else {}
            message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            await self._channel.send(message, headers)
            outcome = await pending.outcome
            if isinstance(outcome, Answer):
                return outcome
            if span is not None:
                code = str(outcome.code)
                span.set_attributes({"error.type": code, "rpc.response.status_code": code})
                span.set_status(trace.StatusCode.ERROR, outcome.message)
            raise outcome
        except anyio.get_cancelled_exc_class():
            if method not in _HANDSHAKES and not self.lost.is_set():
                with anyio.move_on_after(_CANCEL_S, shield=True), suppress(ConnectionEnded):
                    await self._cancel(request_id)
            raise
        except ConnectionEnded:
            self.lost.set()
            raise
        finally:
            del self._pending[request_id]
            if span is not None:
                span.end()

    async def _cancel(self, request_id: int | str) -> None:
        params = {"requestId": request_id, "reason": "caller cancelled"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        await self._channel.send(message, self._version_header(), is_urgent=True)

    def _version_header(self) -> Headers:
        return {MCP_PROTOCOL_VERSION_HEADER: self.protocol} if self.protocol is not None else {}

    def _headers(self, method: str, params: dict[str, Any]) -> Headers:
        headers = self._version_header()
        if self.is_modern:
            headers[MCP_METHOD_HEADER] = method
            name = params.get(NAME_BEARING_METHODS.get(method, ""))
            if isinstance(name, str):
                headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and isinstance(name, str):
                headers |= mcp_param_headers(self._header_maps.get(name, {}), params.get("arguments") or {})
        return headers

    def _start_span(self, method: str, params: dict[str, Any], request_id: int | str) -> trace.Span | None:
        """None if nobody collects traces; the server then learns the host's trace, if there is one."""
        span, context = None, None
        if has_trace_provider():
            target = params.get("name")
            span = _TRACER.start_span(
                f"MCP send {method} {target}" if isinstance(target, str) else f"MCP send {method}",
                kind=trace.SpanKind.CLIENT,
                attributes={"mcp.method.name": method, "jsonrpc.request.id": str(request_id)},
            )
            context = trace.set_span_in_context(span)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, context)
        if carrier:
            params["_meta"] = {**params.get("_meta", {}), **carrier}
        return span

    def take(self, message: types.JSONRPCMessage, is_read: anyio.Event | None = None) -> bool:
        """Take a message that has come; True if its result is still to be read, after which `is_read` is set."""
        if isinstance(message, types.JSONRPCNotification):
            self._take_notification(message.method, message.params or {})
            return False
        if isinstance(message, types.JSONRPCRequest):
            if self.replies < _MAX_REPLIES:
                self.replies += 1
                self._tasks.start_soon(self._reply, message, self.replies > _MAX_ANSWERS)
            return False
        if (pending := self._waiting_for(message.id)) is None or pending.outcome.done():
            return False
        if isinstance(message, types.JSONRPCResponse):
            pending.outcome.set_result(Answer(message.result, is_read))
            return True
        error = message.error
        pending.outcome.set_result(RequestFailed(error.code, error.message, error.data))
        return False

    async def take_large(self, message: types.JSONRPCMessage) -> None:
        """As `take`, for a large message; returns once its result was read."""
        is_read = anyio.Event()
        if self.take(message, is_read):
            message.result = {}  # type: ignore[union-attr]  # else the caller would hold it while this waits
            with anyio.move_on_after(_READ_S):
                await is_read.wait()

    def _take_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            pending, done = self._waiting_for(params.get("progressToken")), _number(params.get("progress"))
            if pending is not None and pending.on_progress is not None and done is not None:
                message = params.get("message")
                try:
                    pending.on_progress(
                        done, _number(params.get("total")), message if isinstance(message, str) else None
                    )
                except Exception:  # what one report does must not end the connection
                    logger.exception("a progress report was not taken")
        elif method in _CHANGES:
            self._owner.note_change(_CHANGES[method])
        elif method == "notifications/cancelled":
            requested = params.get("requestId")
            scope = self._answering.get(requested) if isinstance(requested, int | str) else None
            if scope is not None:
                scope.cancel()
            elif (pending := self._waiting_for(requested)) is not None and pending.on_opened is not None:
                _resolve(pending, Answer({}))  # the end of a stream of changes
        elif method == "notifications/subscriptions/acknowledged":
            pending = self._waiting_for(as_object(params.get("_meta")).get(SUBSCRIPTION_ID_META_KEY))
            if pending is not None and pending.on_opened is not None:
                pending.on_opened()

    def _waiting_for(self, request_id: Any) -> _Pending | None:
        if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < _MAX_ID_DIGITS:
            request_id = int(request_id)  # servers make texts of numbers
        return self._pending.get(request_id) if type(request_id) in (int, str) else None

    async def _reply(self, request: types.JSONRPCRequest, is_refused: bool) -> None:
        try:
            await self._answer(request, is_refused)
        finally:
            self.replies -= 1
            self.replied.notify()

    async def _answer(self, request: types.JSONRPCRequest, is_refused: bool) -> None:
        reply: dict[str, Any] = {}
        with anyio.CancelScope() as scope:
            self._answering[request.id] = scope
            try:
                if is_refused:
                    reply = {"error": {"code": types.INTERNAL_ERROR, "message": _TOO_MANY}}
                else:
                    reply = {"result": await result_for(request, self.protocol, self._owner.requests)}
            except RequestFailed as error:
                reply = {"error": {"code": error.code, "message": error.message}}
            except Exception as error:
                logger.exception("a request of an upstream was not answered")
                reply = {"error": {"code": types.INTERNAL_ERROR, "message": type(error).__name__}}
            finally:
                if self._answering.get(request.id) is scope:
                    del self._answering[request.id]
        if reply:
            try:
                await self._channel.send({"jsonrpc": "2.0", "id": request.id, **reply}, self._version_header())
            except ConnectionEnded:
                self.lost.set()

    def refuse_schema(self, schema: JsonSchema) -> str | None:
        """Why a client must not use a tool with this input schema (a rule of protocol 2026-07-28), or None."""
        if not self.is_modern:
            return None
        try:
            reason = find_invalid_x_mcp_header(schema)
        except (TypeError, ValueError, AttributeError, RecursionError):
            return "its inputSchema can't be read"
        return None if reason is None else f"invalid x-mcp-header ({reason})"

    def remember(self, tools: tuple[ToolDefinition, ...]) -> None:
        """Note which arguments of these tools are sent as HTTP headers too."""
        if self.is_modern and self._channel.has_headers:
            self._header_maps = {tool.name: x_mcp_header_map(tool.input_schema) for tool in tools}


@cache
def client_capabilities(features: frozenset[Feature]) -> dict[str, Any]:
    """Capabilities declared to an upstream for these features; not to be changed."""
    answered = (("sampling", Feature.SAMPLING), ("roots", Feature.ROOTS))
    declared: dict[str, Any] = {name: {} for name, feature in answered if feature in features}
    forms = (("form", Feature.ELICITATION), ("url", Feature.URL))
    elicited: dict[str, Any] = {name: {} for name, feature in forms if feature in features}
    return declared | ({"elicitation": elicited} if elicited else {})


@cache
def _envelope(version: str, features: frozenset[Feature]) -> dict[str, Any]:
    return {
        types.PROTOCOL_VERSION_META_KEY: version,
        types.CLIENT_INFO_META_KEY: _CLIENT_INFO,
        types.CLIENT_CAPABILITIES_META_KEY: client_capabilities(features),
    }


def _resolve(pending: _Pending, outcome: Answer | RequestFailed) -> None:
    if not pending.outcome.done():
        pending.outcome.set_result(outcome)


def _number(value: Any) -> float | None:
    """A number of a report, infinity for one that is too large for a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
