"""Bounds what an HTTP upstream may send, in decoded bytes, and gives its messages to the session past mcp.

mcp reads a body of any size, and validates it on the event loop: 5 s for 23 MiB of rows. So bodies pass through here
first, and are read by `parse_line` as lines of stdout are, whatever their content type says; a message that is large,
in a thread. The session gets the message from here, and mcp only that its request is answered. One that is too large,
or can't be taken for another reason, becomes the error of the call that it answers: the connection goes on. A body that
holds no message is cut off.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import anyio
import httpx2

from codemode_server.processes.stream_readers import BoundedBytes
from codemode_server.support.off_loop import LARGE_BYTES, Pace, read_large
from codemode_server.upstreams.messages import (
    Unread,
    first_fields,
    not_decodable,
    parse_line,
    too_large,
    unreadable,
)
from codemode_server.upstreams.stream_channel import StreamChannel

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp_types import JSONRPCMessage

    from codemode_server.upstreams.session import Session

_PIECE_BYTES = 64 * 2**10
_MAX_CODING_CHARACTERS = 50
_MAX_FRUITLESS_BYTES = 256 * 2**10
"""A header of gzip may be long; after it something comes out of each piece."""
_MAX_HEAD_BYTES = 4 * 2**10
"""Beginning of a request in which its id is looked for."""
_MAX_FIELD_BYTES = 4 * 2**10
"""Longest id and type of an event."""
_MAX_BODIES = 2
"""Large bodies of one upstream that are in memory at once, received or waiting to be read."""


class Bounds:
    """Limits on the input of one connection. `bound` is a response hook of its client."""

    def __init__(self, max_bytes: Callable[[], int], *, answers_in_posts: bool) -> None:
        """`answers_in_posts`: a POST is answered by its response; of HTTP+SSE that says nothing."""
        self._session: Session | None = None
        self._receiving_large = anyio.Semaphore(_MAX_BODIES)
        self._max_bytes = max_bytes
        self._answers_in_posts = answers_in_posts

    def deliver_to(self, session: Session) -> None:
        """From now on, give messages to this session; before that, mcp gets them."""
        self._session = session

    async def bound(self, response: httpx2.Response) -> None:
        """Replace the body of a response by the bounded one."""
        # A response of its own decodes the bytes, so that the decoded size is counted.
        sent = _Sent(response)
        request_id = await _id_of(response.request) if self._answers_in_posts else None
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_stream = kind == "text/event-stream"
        if is_stream:
            pieces = self._events(sent, request_id)
        elif request_id is not None and 200 <= response.status_code < 300:
            pieces = self._answer(sent, request_id)
            response.headers["content-type"] = "application/json"
        else:
            pieces = sent.beginning()
        if request_id is not None:
            pieces = _up_to_mistake(pieces, sent, request_id, is_stream=is_stream)
        for name in ("content-encoding", "content-length"):
            response.headers.pop(name, None)
        response.stream = _Body(pieces, sent.response.aclose)

    async def _answer(self, sent: _Sent, request_id: int | str) -> AsyncGenerator[bytes]:
        body = BoundedBytes(self._max_bytes())
        async with aclosing(sent.pieces()) as pieces:
            async for piece in pieces:
                body.add(piece)
                if body.size > LARGE_BYTES:
                    break
            async with self._receiving(body):
                async for piece in pieces:
                    body.add(piece)
                    if body.is_too_long:
                        break
                came = bytes(body.data[:LARGE_BYTES])
                messages = await self._messages(body, request_id)
                answers = [message for message in messages if not hasattr(message, "method")]
                answer = min(answers, key=lambda it: getattr(it, "id", None) != request_id, default=None)
                del messages, answers
                for said in await self._past_mcp([answer or unreadable(request_id, came)], body, request_id):
                    yield _encoded(said)

    async def _events(self, sent: _Sent, request_id: int | str | None) -> AsyncGenerator[bytes]:
        reader = EventReader(self._max_bytes)
        refused: BoundedBytes | None = None
        async with aclosing(sent.pieces()) as pieces:
            async for piece in pieces:
                for event in reader.read(piece):
                    if event.data is not refused:
                        yield await self._read(event, request_id)
                # An event that is too long fails its call before its end, which may never come.
                if (endless := reader.endless) is not None and endless is not refused:
                    if messages := await self._messages(endless, request_id):
                        refused = endless
                        for said in await self._past_mcp(messages[:1], endless, request_id):
                            yield b"data: " + _encoded(said) + b"\n\n"
                    if request_id is not None:
                        return
            for event in reader.read(b"\n\n"):  # one that ends with the stream
                if event.data is not refused and event.data.data.rstrip().endswith(b"}"):
                    yield await self._read(event, request_id)

    async def _read(self, event: ServerSentEvent, request_id: int | str | None) -> bytes:
        """The event as mcp reads it; nothing of one that holds no message."""
        if not event.data.size or event.fields.get(b"event") == b"endpoint":
            return event.encoded()
        came = event.encoded() if event.data.size <= LARGE_BYTES and b"{" in event.data.data else b""
        said_error = bytes(event.data.data[:LARGE_BYTES]) if event.fields.get(b"event") == b"error" else b""
        async with self._receiving(event.data):
            messages = await self._messages(event.data, request_id)
            if said_error and not messages and request_id is not None:
                messages = [unreadable(request_id, said_error)]
            is_message = bool(messages)
            passed_on = await self._past_mcp(messages, event.data, request_id)
        event.fields.pop(b"event", None)
        written = []
        for message in passed_on:
            said = _encoded(message)
            event.data = BoundedBytes(len(said))
            event.data.add(said)
            written.append(event.encoded())
        if is_message and not written and b"id" in event.fields:  # mcp resumes the stream after this one
            event.data = BoundedBytes(0)
            written.append(event.encoded())
        return b"".join(written) or (b"" if is_message else came)

    def _receiving(self, body: BoundedBytes) -> Any:
        return self._receiving_large if body.size > LARGE_BYTES else contextlib.nullcontext()

    async def _messages(self, body: BoundedBytes, request_id: int | str | None) -> list[JSONRPCMessage]:
        if body.is_too_long:
            answers = Unread.of(body.head, body.tail).answers if request_id is None else request_id
            return [] if answers is None else [too_large(answers, body.most)]
        data, body.data = body.data, bytearray()
        return [*(await read_large(parse_line, data) if body.size > LARGE_BYTES else parse_line(data))]

    async def _past_mcp(
        self, messages: list[JSONRPCMessage], body: BoundedBytes, request_id: int | str | None
    ) -> list[JSONRPCMessage]:
        """Give the messages of a body to the session; what mcp gets in their place."""
        from mcp_types import JSONRPCError, JSONRPCResponse

        is_large = body.size > LARGE_BYTES
        passed_on: list[JSONRPCMessage] = []
        while messages:
            message = messages.pop(0)
            is_answer = isinstance(message, JSONRPCResponse | JSONRPCError)
            if is_answer and request_id is not None:
                message.id = request_id  # type: ignore[union-attr]
            is_resumed = self._answers_in_posts and request_id is None  # then mcp knows which request is answered
            if self._session is None or (is_answer and is_resumed and not is_large):
                passed_on.append(message)
                continue
            if is_answer:
                passed_on.append(JSONRPCResponse(jsonrpc="2.0", id=message.id or 0, result={}))  # type: ignore[union-attr]
            if is_large:
                await self._session.take_large(message)
            else:
                self._session.take(message)
        return passed_on


class _Sent:
    """A response as it is sent. The body is decoded at a pace: most of what comes out of it need not come from the
    network."""

    def __init__(self, response: httpx2.Response) -> None:
        self._pace = Pace()
        self._fruitless_bytes = 0
        """Bytes received since anything was decoded."""
        stream = cast("httpx2.AsyncByteStream", response.stream)
        body = _Body(self._arriving(stream), stream.aclose)
        self.response = httpx2.Response(response.status_code, headers=response.headers.copy(), stream=body)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The decoded body. Raises `httpx2.DecodingError`: it is not in the content coding that its header names, or
        has several: one makes at most a thousand bytes of each, several make much work of a few kilobytes."""
        codings = self.response.headers.get_list("content-encoding", split_commas=True)
        if sum(coding.strip().lower() not in ("", "identity") for coding in codings) > 1:
            raise httpx2.DecodingError("several content codings")
        async for decoded in self.response.aiter_bytes():
            self._fruitless_bytes = 0
            for start in range(0, len(decoded), _PIECE_BYTES):
                yield decoded[start : start + _PIECE_BYTES]
                await self._pace.rest()

    async def beginning(self) -> AsyncGenerator[bytes]:
        """A body without a message, mostly a proxy's error page; cut if it is long."""
        left = LARGE_BYTES
        with contextlib.suppress(httpx2.DecodingError):
            async for piece in self.pieces():
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

    async def _arriving(self, stream: httpx2.AsyncByteStream) -> AsyncGenerator[bytes]:
        """Yields the data. Bytes after the end of compressed data end it: zlib would collect them."""
        async for piece in stream:
            self._pace.begin()
            self._fruitless_bytes += len(piece)
            yield piece
            if self._fruitless_bytes > _MAX_FRUITLESS_BYTES:
                return


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: AsyncGenerator[bytes], close: Callable[[], Awaitable[None]]) -> None:
        """`close` closes what the pieces are read from."""
        self._pieces = pieces
        self._close = close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()
        await self._close()


async def _up_to_mistake(
    pieces: AsyncGenerator[bytes], sent: _Sent, request_id: int | str, *, is_stream: bool
) -> AsyncGenerator[bytes]:
    """`pieces`, and the error of their call where the body is not in the content coding that its header names."""
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
    except httpx2.DecodingError:
        coding = sent.response.headers.get("content-encoding", "").strip()[:_MAX_CODING_CHARACTERS]
        said = _encoded(not_decodable(request_id, coding))
        yield b"data: " + said + b"\n\n" if is_stream else said


def _encoded(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


async def _id_of(request: httpx2.Request) -> int | str | None:
    """The id of the JSON-RPC request in a POST; None for a notification and other methods of HTTP."""
    if request.method != "POST":
        return None
    content = await request.aread()  # a request that follows a redirect is not read yet
    fields = first_fields(content[:_MAX_HEAD_BYTES].decode("utf-8", "replace")) or {}
    found = fields.get("id")
    return found if isinstance(found, int | str) else None


@dataclass
class ServerSentEvent:
    data: BoundedBytes
    fields: dict[bytes, bytes] = field(default_factory=dict)
    """`event`, `id` and `retry`."""

    def encoded(self) -> bytes:
        lines = [b"%s: %s" % one for one in self.fields.items()]
        if self.data.size:
            lines += [b"data: " + line for line in bytes(self.data.data).split(b"\n")]
        return b"\n".join(lines) + b"\n\n"


class EventReader:
    """Bytes of a stream → its events. Comments are left out."""

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes
        self._line = BoundedBytes(max_bytes())
        self._event = ServerSentEvent(BoundedBytes(max_bytes()))
        self._is_after_return = False

    @property
    def endless(self) -> BoundedBytes | None:
        """The data that have come of an event, if they are too long by now."""
        if self._event.data.is_too_long:
            return self._event.data
        if not self._line.is_too_long or not self._line.head.startswith(b"data:"):
            return None
        self._add_long(self._line)
        return self._event.data

    def read(self, piece: bytes) -> Iterator[ServerSentEvent]:
        if self._is_after_return and piece[:1] == b"\n":
            piece = piece[1:]
        self._is_after_return = piece[-1:] == b"\r"
        for line in piece.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            if len(content) == len(line):  # it goes on in the next piece
                self._line.add(content)
                return
            if self._line.size:
                self._line.add(content)
                whole, self._line = self._line, BoundedBytes(self._max_bytes())
                self._add_long(whole)
            elif content:
                self._add(content)
            elif self._event.fields or self._event.data.size:
                event, self._event = self._event, ServerSentEvent(BoundedBytes(self._max_bytes()))
                yield event

    def _add(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            if self._event.data.size:
                self._event.data.add(b"\n")
            self._event.data.add(value)
        elif name in (b"event", b"id", b"retry") and len(value) <= _MAX_FIELD_BYTES:
            self._event.fields[name] = value

    def _add_long(self, line: BoundedBytes) -> None:
        """As `_add`, for a line that came in several pieces; without a copy where it is all of the data."""
        if line.is_too_long:
            if line.head.startswith(b"data:"):
                before = self._event.data
                line.head = before.head or bytes(before.data[:_MAX_FIELD_BYTES]) or line.head[5:]
                self._event.data = line
        elif line.data.startswith(b"data:") and not self._event.data.size:
            del line.data[:5]
            line.size = len(line.data)
            self._event.data = line
        elif not line.data.startswith(b":"):
            self._add(bytes(line.data))


class BoundedChannel(StreamChannel):
    """The channel of a session over HTTP: from mcp come only the errors that it finds itself."""

    def __init__(self, streams: TransportStreams, bounds: Bounds) -> None:
        super().__init__(streams, has_headers=True)
        self._bounds = bounds

    async def deliver_to(self, session: Session) -> None:
        self._bounds.deliver_to(session)
        await super().deliver_to(session)
