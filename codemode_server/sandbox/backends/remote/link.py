"""One connection between a replica and a node: data, messages and heartbeats, each in a packet of its own.

A packet is a byte that says which, 4 bytes of length, and so many bytes. Either end sends a heartbeat each half second;
one from which nothing came for longer than the other's patience is taken for dead, even if its system still answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from ssl import SSLError
from typing import Any

import anyio
from anyio.abc import ByteSendStream, ByteStream

from codemode_server.processes.stream_readers import FrameBuffer, FramingError, framed

DATA, MESSAGE, BEAT = 0, 1, 2
BEAT_SECONDS = 0.5
_MAX_PACKET_BYTES = 256 * 2**10
_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, SSLError)


class LinkLost(Exception):
    """Raised when a message was expected, and the other end is gone or sends something else; says which."""


class Link(ByteSendStream):
    """`receive` and `send` are the data, for a `FrameReader` and a `Channel`. A message ends the data, and is then
    `message`. Each direction is used by one task, besides heartbeats."""

    def __init__(self, stream: ByteStream, patience_s: float) -> None:
        self._stream = stream
        self._patience_s = patience_s
        self._packets = FrameBuffer(prefix_bytes=1)
        self._sending = anyio.Lock(fast_acquire=True)
        self.message: dict[str, Any] | None = None
        """What came in place of further data."""
        self.problem = ""
        """Why nothing more can come; empty while it can."""
        self.on_end: Callable[[], None] = lambda: None
        """Called once no more data will come."""

    async def hear(self, max_bytes: int = _MAX_PACKET_BYTES) -> dict[str, Any]:
        """The next message. Raises `LinkLost`."""
        return _parsed(await self.hear_bytes(max_bytes))

    async def hear_bytes(self, max_bytes: int) -> bytes:
        kind, data = await self._next(max_bytes)
        if kind != MESSAGE:
            raise LinkLost(self.problem or "it sent data in place of a message")
        return data

    async def tell(self, message: dict[str, Any] | bytes) -> None:
        await self._send(MESSAGE, message if isinstance(message, bytes) else json.dumps(message).encode())

    async def receive(self, max_bytes: int = _MAX_PACKET_BYTES) -> bytes:
        """The data of one packet. Raises `EndOfStream` at a message, or when the other end is gone."""
        if self.message is None:
            kind, data = await self._next(_MAX_PACKET_BYTES)
            if kind == DATA:
                return data
            with suppress(LinkLost):
                self.message = _parsed(data)
            self.on_end()
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Raises `BrokenResourceError` if the other end is gone."""
        for start in range(0, len(item), _MAX_PACKET_BYTES):
            await self._send(DATA, item[start : start + _MAX_PACKET_BYTES])

    async def beat(self) -> None:
        """Send a heartbeat, unless something is being sent, which counts as one."""
        if not self._sending.locked():
            with suppress(anyio.BrokenResourceError):
                await self._send(BEAT, b"")

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    async def _send(self, kind: int, data: bytes) -> None:
        async with self._sending:
            try:
                await self._stream.send(bytes([kind]) + framed(data))
            except _CLOSED:
                self._lose("it has closed the connection")
                raise anyio.BrokenResourceError from None

    async def _next(self, max_bytes: int) -> tuple[int, bytes]:
        """The next packet but a heartbeat; a heartbeat once no more will come."""
        while not self.problem:
            try:
                packet = self._packets.take(max_bytes)
                if packet is None:
                    with anyio.fail_after(self._patience_s):
                        self._packets.add(await self._stream.receive(_MAX_PACKET_BYTES))
                elif packet[0] != BEAT:
                    return packet[0], packet[1:]
            except TimeoutError:
                self._lose("it does not answer")
            except FramingError as error:
                self._lose(f"it broke the protocol: {error}")
            except _CLOSED:
                self._lose("it has closed the connection")
        return BEAT, b""

    def _lose(self, problem: str) -> None:
        self.problem = self.problem or problem
        self.on_end()


def _parsed(data: bytes) -> dict[str, Any]:
    """A message. Raises `LinkLost` if it is none."""
    with suppress(ValueError, RecursionError):
        message = json.loads(data)
        if isinstance(message, dict):
            return message
    raise LinkLost("it sent no message")
