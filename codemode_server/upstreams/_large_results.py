"""Keeps large results out of mcp: substitutes a token before parsing and restores the result afterwards.

A result that was parsed elsewhere waits here while mcp handles its token, and is put back behind mcp.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import anyio

from codemode_server.change_signal import ChangeSignal
from codemode_server.upstreams._messages import dropped

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_MAX_BODIES = 2
"""Large bodies of one upstream that are received at once."""
_MAX_WAITING = 2
"""Large results of one upstream that wait for their caller, parsed."""
_WAIT_S = 10.0
_STANDS_FOR = "codemode-server/large-result"


class LargeResults:
    """The large results of one connection, on their way past mcp. Each is taken once."""

    def __init__(self) -> None:
        self.receiving = anyio.Semaphore(_MAX_BODIES)
        self._waiting: dict[str, dict[str, Any]] = {}
        self._taken = ChangeSignal()

    async def put(self, result: dict[str, Any]) -> dict[str, Any]:
        """The small result that stands for this one. Waits while several wait to be taken; one that nobody takes for
        long is dropped, since its caller has gone."""
        with anyio.move_on_after(_WAIT_S):
            while len(self._waiting) >= _MAX_WAITING:
                await self._taken.wait()
        while len(self._waiting) >= _MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        token = secrets.token_hex(16)
        self._waiting[token] = result
        return {_STANDS_FOR: token}

    def take(self, result: dict[str, Any]) -> dict[str, Any] | None:
        """The result that this one stands for, or the same; None if that was dropped."""
        if not isinstance(result.get(_STANDS_FOR), str):
            return result
        found = self._waiting.pop(result[_STANDS_FOR], None)
        if found is None:
            return None
        self._taken.notify()
        return found


class Restored:
    """A stream of messages in which each large result is back in its place."""

    def __init__(self, stream: Any, large: LargeResults) -> None:
        self._stream = stream
        self._large = large

    @property
    def last_context(self) -> Any:
        return self._stream.last_context

    async def receive(self) -> SessionMessage | Exception:
        item: SessionMessage | Exception = await self._stream.receive()
        message = getattr(item, "message", None)
        if isinstance(result := getattr(message, "result", None), dict):
            found = self._large.take(result)
            if found is None:
                item.message = dropped(message.id)  # type: ignore[union-attr]
            else:
                message.result = found  # type: ignore[union-attr]
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Restored:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Restored:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
