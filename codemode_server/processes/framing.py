"""Frames on the byte streams between processes: 4 bytes of length, big-endian, and so many bytes of data.

`sandbox/backends/wasm/worker.py` and the programs in `sandbox/guest/` import nothing of codemode_server, so they have
code of their own for this format. Standard library only: the encoder's process imports it.
"""

from __future__ import annotations

import struct

LENGTH = struct.Struct(">I")


class FramingError(Exception):
    """Raised for bytes that are no message, or for a message that is longer than allowed."""


def frame(data: bytes) -> bytes:
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
        """The first frame with its prefix, or None while it is not whole.

        Raises:
            FramingError: it is longer than allowed.
        """
        size = self._size
        if size is None:
            return None
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
    def has_frame(self) -> bool:
        """True if the next frame has arrived completely."""
        size = self._size
        return size is not None and len(self._bytes) >= self._header + size

    @property
    def is_empty(self) -> bool:
        """True if everything that arrived has been taken."""
        return not self._bytes

    @property
    def _size(self) -> int | None:
        if len(self._bytes) < self._header:
            return None
        size: int = LENGTH.unpack_from(self._bytes, self._prefix)[0]
        return size
