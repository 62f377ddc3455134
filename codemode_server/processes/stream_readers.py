"""Reads messages from the byte streams between processes: frames, bodies after `Content-Length`, and lines.

No reader holds more of a message than its limit and one chunk; a message that is too long is known as soon as possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anyio import DelimiterNotFound, EndOfStream, IncompleteRead
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

from codemode_server.off_loop import Pace
from codemode_server.processes.framing import FrameBuffer, FramingError

_CHUNK_BYTES = 2**18
_MAX_HEADER_BYTES = 4_096
_END_BYTES = 4 * 2**10
"""Bytes held of each end of a message that is too long."""


class ByteSource(Protocol):
    """A stream of bytes to read from."""

    async def receive(self, max_bytes: int = 65_536) -> bytes: ...


class FrameReader(FrameBuffer):
    """Frames from a stream."""

    def __init__(self, stream: ByteSource) -> None:
        super().__init__()
        self._stream = stream

    async def read(self, max_bytes: int) -> bytes:
        """The next frame.

        Raises:
            anyio.EndOfStream: the stream has ended.
            FramingError: the frame is longer than allowed.
        """
        while (data := self.take(max_bytes)) is None:
            self.add(await self._stream.receive(_CHUNK_BYTES))
        return data


def content_length_message(body: bytes) -> bytes:
    """The body after its header."""
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class ContentLengthReader:
    """Bodies of messages with the header `Content-Length` from a stream."""

    def __init__(self, stream: ByteReceiveStream) -> None:
        self._stream = BufferedByteReceiveStream(stream)

    async def read(self, max_bytes: int) -> bytes:
        """The next message's body.

        Raises:
            anyio.EndOfStream: the stream has ended.
            FramingError: a header is wrong, or the body is longer than allowed.
        """
        size = -1
        try:
            while header := await self._stream.receive_until(b"\r\n", _MAX_HEADER_BYTES):
                name, _, value = header.decode("latin-1").partition(":")
                if name.lower() == "content-length":
                    size = int(value)
            if not 0 <= size <= max_bytes:
                raise FramingError(f"a message without a length, or one of more than {max_bytes} bytes")
            return await self._stream.receive_exactly(size)
        except (DelimiterNotFound, ValueError) as error:
            raise FramingError("a message has no header") from error
        except IncompleteRead:
            raise EndOfStream from None


class BoundedBytes:
    """Collects up to `most` bytes; beyond that, holds only the beginning and the end."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.data = bytearray()
        """All of them; empty once they are too many."""
        self.size = 0
        self.head = b""
        """The beginning, once they are too many."""
        self.tail = b""

    @property
    def is_too_long(self) -> bool:
        return self.size > self.most

    def add(self, piece: bytes | bytearray) -> None:
        if not self.is_too_long:
            if self.size + len(piece) <= self.most:
                self.data += piece
            else:
                self.head = bytes((self.data[:_END_BYTES] + piece[:_END_BYTES])[:_END_BYTES])
                self.tail, self.data = bytes(self.data[-_END_BYTES:]), bytearray()
        self.size += len(piece)
        if self.is_too_long:
            self.tail = (self.tail + piece[-_END_BYTES:])[-_END_BYTES:]


class LineReader:
    """Lines from a stream, in time linear in their length; many small ones at the pace that the event loop bears."""

    def __init__(self, stream: ByteSource, max_bytes: Callable[[], int]) -> None:
        """`max_bytes` is asked for each line, since the limit can change."""
        self._stream = stream
        self._max_bytes = max_bytes
        self._line = BoundedBytes(max_bytes())
        self._chunk, self._start = b"", 0
        self._pace = Pace()

    async def read(self) -> tuple[BoundedBytes, bool]:
        """The next line, and True; of one that is too long already, False, again with each chunk of it.

        Raises:
            anyio.EndOfStream: the stream has ended.
        """
        if self._start:
            await self._pace.rest()
        while True:
            end = self._chunk.find(b"\n", self._start)
            if end >= 0:
                line, self._line = self._line, BoundedBytes(self._max_bytes())
                line.add(self._chunk[self._start : end])
                self._start = end + 1
                return line, True
            self._line.add(self._chunk[self._start :])
            is_begun = self._start < len(self._chunk)
            self._chunk, self._start = b"", 0
            if is_begun and self._line.is_too_long:
                return self._line, False
            self._chunk = await self._stream.receive()
            self._pace.begin()
