"""Bounds the memory of the arguments of those calls of one program that are being made."""

from __future__ import annotations

import anyio

from codemode_server.sandbox import frames


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

    async def take(self, call: frames.Call | frames.Read) -> None:
        """Wait until there is room for one more."""
        await self.wait(call.memory)
        self._taken[call.id] = call.memory

    def give_back(self, call: frames.Call | frames.Read) -> None:
        del self._taken[call.id]
        self._less.set()
        self._less = anyio.Event()
