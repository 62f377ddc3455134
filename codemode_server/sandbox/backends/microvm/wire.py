"""The connection to one microVM: packets to and from its supervisor, with the frames of the program that runs in it.

`guest/supervisor.py` documents the packets. No task of its own reads the connection: whoever waits for a packet also
processes those for others. So a program's bytes are acknowledged only as fast as the host uses them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from codemode_server.processes.stream_readers import ByteSource, FrameBuffer, FramingError, framed

DATA, CONTROL, RECEIVED = 0, 1, 2
_PACKET = 64 * 2**10
_WINDOW = 256 * 2**10
"""Maximum bytes sent to the supervisor and not acknowledged yet."""
_MAX_WAITING_BYTES = 256 * 2**10
"""Limit for the program's bytes in flight; an honest supervisor has no more."""
_MAX_MESSAGES = 16
"""Limit for messages that wait to be read; an honest supervisor sends one at a time."""
_ACKNOWLEDGE = 32 * 2**10
_MAX_PACKET_BYTES = 2**16
_SEND_SECONDS = 20.0


class WireBroken(Exception):
    """Raised when the supervisor is gone or breaks the protocol; the microVM is unusable then."""


class Bytes(ByteSource, Protocol):
    async def send(self, item: bytes) -> None: ...

    async def aclose(self) -> None: ...


class Wire:
    """The host's end. `program` is a stream of the running program's bytes; use from one event loop."""

    def __init__(self, stream: Bytes) -> None:
        self._stream = stream
        self._packets = FrameBuffer(prefix_bytes=1)
        self._taking = anyio.Lock(fast_acquire=True)
        self._sending = anyio.Lock(fast_acquire=True)
        self._news = anyio.Event()
        self._messages: list[dict[str, Any]] = []
        self.program = _ProgramStream(self)
        self.data = bytearray()
        self.taken = 0
        self.window = _WINDOW
        self.is_program_over = True
        self.is_broken = False
        self.on_over: Callable[[], None] = lambda: None
        """Called when the program has filled the scratch folders."""
        self.gone: dict[str, Any] | None = None
        """The supervisor's message that the runner ended by itself."""

    async def begin(self, memory_mb: int, disk_mb: int) -> None:
        self._reset()
        self.is_program_over = False
        await self.tell(op="begin", memory_mb=memory_mb, disk_mb=disk_mb)

    async def end(self) -> dict[str, Any]:
        self.is_program_over = True
        await self.tell(op="end")
        ended = await self.hear("ended")
        self._reset()
        return ended

    async def tell(self, **message: Any) -> None:
        await self.send(CONTROL, json.dumps(message).encode())

    async def hear(self, op: str) -> dict[str, Any]:
        """The supervisor's next message with this `op`; earlier messages are dropped."""
        while True:
            await self.until(lambda: bool(self._messages))
            message = self._messages.pop(0)
            if message.get("op") == op:
                return message

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Process packets until a condition holds. Raises `WireBroken` if no more packets will come."""
        while not is_so():
            if self.is_broken:
                raise WireBroken("the microVM's connection is broken")
            try:
                self._taking.acquire_nowait()
            except anyio.WouldBlock:
                await self._news.wait()
                continue
            try:
                await self._take_in()
            finally:
                self._taking.release()
                self._news.set()
                self._news = anyio.Event()

    async def send(self, kind: int, data: bytes) -> None:
        """Send one packet, shielded from cancellation, since nothing could be read after half a packet."""
        async with self._sending:
            with anyio.move_on_after(_SEND_SECONDS, shield=True) as patience:
                await self._or_break(self._stream.send(bytes([kind]) + framed(data)))
            if patience.cancelled_caught:
                self.is_broken = True
        if self.is_broken:
            raise WireBroken("the microVM's connection is broken")

    async def acknowledge(self, size: int) -> None:
        """Count bytes of the program that the host has used, and acknowledge them from time to time."""
        self.taken += size
        if self.taken >= _ACKNOWLEDGE and not self.is_program_over:
            taken, self.taken = self.taken, 0
            await self.send(RECEIVED, taken.to_bytes(4, "big"))

    async def aclose(self) -> None:
        self.is_broken = True
        await self._stream.aclose()

    def _reset(self) -> None:
        self.data.clear()
        self.taken, self.window, self.gone = 0, _WINDOW, None
        self._messages = [message for message in self._messages if message["op"] == "ready"]

    async def _take_in(self) -> None:
        chunk = await self._or_break(self._stream.receive(2**18))
        self._packets.add(chunk or b"")
        try:
            while not self.is_broken and (packet := self._packets.take(_MAX_PACKET_BYTES)) is not None:
                self._take(packet[0], packet[1:])
        except FramingError:
            self.is_broken = True

    def _take(self, kind: int, data: bytes) -> None:
        if kind == DATA:
            if not self.is_program_over:
                self.data += data
                self.is_broken = self.is_broken or len(self.data) > _MAX_WAITING_BYTES
        elif kind == RECEIVED:
            self.window += int.from_bytes(data, "big")
        elif kind == CONTROL:
            message = _message(data)
            match message.get("op"):
                case "over":
                    self.on_over()
                case "gone":
                    self.gone = message
                case "ready" | "ended":
                    self._messages.append(message)
                    self.is_broken = self.is_broken or len(self._messages) > _MAX_MESSAGES
                case _:
                    self.is_broken = True
        else:
            self.is_broken = True

    async def _or_break(self, action: Awaitable[Any]) -> Any:
        try:
            return await action
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self.is_broken = True
            return None


class _ProgramStream(ByteReceiveStream, ByteSendStream):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        wire = self._wire
        try:
            await wire.until(lambda: bool(wire.data) or wire.gone is not None)
            if not wire.data:
                raise anyio.EndOfStream
            data = bytes(wire.data[:max_bytes])
            del wire.data[: len(data)]
            await wire.acknowledge(len(data))
        except WireBroken:
            raise anyio.EndOfStream from None
        return data

    async def send(self, item: bytes) -> None:
        wire, left = self._wire, memoryview(item)
        try:
            while left:
                await wire.until(lambda: wire.window > 0 or wire.gone is not None)
                if wire.gone is not None:
                    raise anyio.BrokenResourceError
                piece = left[: min(_PACKET, wire.window)]
                wire.window -= len(piece)
                await wire.send(DATA, bytes(piece))
                left = left[len(piece) :]
        except WireBroken:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Do nothing: the microVM owns the stream, and the program ends with `Wire.end`."""


def _message(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
