"""Bounds the memory that the frames of one program take on the host: calls that are being made, answers that wait."""

from __future__ import annotations

import anyio
from anyio.abc import ByteSendStream

_PIECE = 256 * 2**10
"""Bytes that are given to the stream at once: it copies what the guest does not read yet."""


class ArgumentRoom:
    """The bytes that the arguments of the calls being made may take together. One call always has room."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken: dict[int, int] = {}
        self._less = anyio.Event()

    async def wait(self, size: int) -> None:
        while self._taken and sum(self._taken.values()) + size > self._max_bytes:
            await self._less.wait()

    async def take(self, call_id: int, size: int) -> None:
        await self.wait(size)
        self._taken[call_id] = size

    def give_back(self, call_id: int) -> None:
        del self._taken[call_id]
        self._less.set()
        self._less = anyio.Event()


async def send_pieces(stream: ByteSendStream, pieces: tuple[bytes, ...]) -> None:
    """Send a frame in pieces, since joining large ones would copy a large value once more."""
    if sum(map(len, pieces)) <= _PIECE:
        await stream.send(b"".join(pieces))
        return
    for whole in pieces:
        for start in range(0, len(whole), _PIECE):
            await stream.send(whole[start : start + _PIECE])
