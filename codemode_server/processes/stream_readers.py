"""Reads messages from the byte streams between processes: frames, and bytes up to a bound.

A frame is 4 bytes of length, big-endian, and so many bytes of data. `sandbox/backends/wasm/worker.py` and the programs
in `sandbox/guest/` import nothing of codemode_server, so they have code of their own for it. No reader holds more of a
message than its limit and one chunk; a message that is too long is known as soon as possible.
"""

from __future__ import annotations

import struct
from typing import Protocol

LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 2**18
_END_BYTES = 4 * 2**10
"""Bytes held of each end of a message that is too long."""


class FramingError(Exception):
    """Raised for bytes that are no message, or for a message that is longer than allowed."""


def framed(data: bytes) -> bytes:
    """The data after its length."""
    return LENGTH.pack(len(data)) + data


class FrameBuffer:
    """The bytes of a stream that have come, and the whole frames in them."""

    def __init__(self, prefix_bytes: int = 0) -> None:
        """`prefix_bytes` of each frame stand before its length; the length does not count them."""
        self._bytes = bytearray()
        self._prefix = prefix_bytes
        self._header = prefix_bytes + LENGTH.size

    def add(self, chunk: bytes) -> None:
        self._bytes += chunk

    def take(self, max_bytes: int) -> bytes | None:
        """The first frame with its prefix, or None while it is not whole. Raises `FramingError` if it is longer than
        allowed."""
        if len(self._bytes) < self._header:
            return None
        (size,) = LENGTH.unpack_from(self._bytes, self._prefix)
        if size > max_bytes:
            raise FramingError(f"a frame of {size} bytes, where {max_bytes} are allowed")
        end = self._header + size
        if len(self._bytes) < end:
            return None
        with memoryview(self._bytes) as view:
            data = b"".join((view[: self._prefix], view[self._header : end]))
        del self._bytes[:end]
        return data

    @property
    def is_empty(self) -> bool:
        """True if everything that arrived has been taken."""
        return not self._bytes


class ByteSource(Protocol):
    """A stream of bytes to read from."""

    async def receive(self, max_bytes: int = 65_536) -> bytes: ...


class FrameReader(FrameBuffer):
    def __init__(self, stream: ByteSource) -> None:
        super().__init__()
        self._stream = stream

    async def read(self, max_bytes: int) -> bytes:
        """The next frame. Raises `EndOfStream` at the end of the stream, `FramingError` if the frame is longer than
        allowed."""
        while (data := self.take(max_bytes)) is None:
            await self.more()
        return data

    async def more(self) -> None:
        """Take in what has come, or wait for it. Raises `EndOfStream` at the end of the stream."""
        self._bytes += await self._stream.receive(_CHUNK_BYTES)


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
