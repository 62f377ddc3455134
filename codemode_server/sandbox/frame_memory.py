"""Bounds the memory that the frames of one program take on the host: calls that are being made, answers that wait."""

from __future__ import annotations

import tempfile
from typing import IO

import anyio
import anyio.to_thread
from anyio.abc import ByteSendStream

_TEXT_BYTES = 100
_VALUE_BYTES = 64
"""Memory of a small value, with its place in a list."""
_NARROW_BYTES = bytes(range(0xF0))
"""The bytes that occur in the UTF-8 of characters up to U+FFFF."""
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_PIECE = 256 * 2**10
"""Bytes that are given to the stream at once: it copies what the guest does not read yet."""


def memory_of(data: bytes, values: int = 0) -> int:
    """Memory that a frame with so many values takes at most once it is parsed: the widest character of a text sets
    what each of it takes."""
    characters, width = len(data), 1
    if b"\\u" in data:
        width = 4
    elif not data.isascii():
        width = 4 if len(data.translate(None, _NARROW_BYTES)) else 2
        characters = len(data.translate(None, _CONTINUATION_BYTES))
    return _TEXT_BYTES + characters * width + _VALUE_BYTES * values


class ArgumentRoom:
    """The memory that the arguments of the calls being made may take together. One call always has room."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken: dict[int, int] = {}
        self._less = anyio.Event()

    async def wait(self, memory: int) -> None:
        while self._taken and sum(self._taken.values()) + memory > self._max_bytes:
            await self._less.wait()

    async def take(self, call_id: int, memory: int) -> None:
        await self.wait(memory)
        self._taken[call_id] = memory

    def give_back(self, call_id: int) -> None:
        del self._taken[call_id]
        self._less.set()
        self._less = anyio.Event()


class OutgoingFrame:
    """A frame that is to be sent; in pieces, since joining them would copy a large value once more."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self._file: IO[bytes] | None = None
        self.size = sum(map(len, pieces))

    def put_on_disk(self) -> None:
        """Hold it in a file without a name rather than in memory, if there is room for that."""
        try:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        except OSError:
            return
        try:
            file.writelines(self._pieces)
            file.seek(0)
        except OSError:
            file.close()
        else:
            self._file, self._pieces = file, ()

    async def send(self, stream: ByteSendStream) -> None:
        if self._file is not None:
            while piece := await anyio.to_thread.run_sync(self._file.read, _PIECE):
                await stream.send(piece)
            return
        if self.size <= _PIECE:
            await stream.send(b"".join(self._pieces))
            return
        for whole in self._pieces:
            for start in range(0, len(whole), _PIECE):
                await stream.send(whole[start : start + _PIECE])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
