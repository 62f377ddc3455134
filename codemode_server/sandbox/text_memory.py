"""Estimates the memory that the texts of a frame take once it is parsed, and bounds that of the arguments of the calls
of one program that are being made."""

from __future__ import annotations

import anyio

_TEXT_BYTES = 100
_NARROW_BYTES = bytes(range(0xF0))
"""The bytes that occur in the UTF-8 of characters up to U+FFFF."""
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def text_memory(data: bytes) -> int:
    """Memory that a frame's texts take at most: the widest character of a text sets what each of it takes."""
    characters, width = len(data), 1
    if b"\\u" in data:
        width = 4
    elif not data.isascii():
        width = 4 if len(data.translate(None, _NARROW_BYTES)) else 2
        characters = len(data.translate(None, _CONTINUATION_BYTES))
    return _TEXT_BYTES + characters * width


class ArgumentRoom:
    """The memory that the arguments of the calls being made may take together. One call always has room."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._taken: dict[int, int] = {}
        self._less = anyio.Event()

    async def wait(self, memory: int) -> None:
        """Wait until there is room for so many bytes."""
        while self._taken and sum(self._taken.values()) + memory > self._most_bytes:
            await self._less.wait()

    async def take(self, call_id: int, memory: int) -> None:
        """Wait until there is room for the arguments of one more call."""
        await self.wait(memory)
        self._taken[call_id] = memory

    def give_back(self, call_id: int) -> None:
        del self._taken[call_id]
        self._less.set()
        self._less = anyio.Event()
