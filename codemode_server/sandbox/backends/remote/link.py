"""One connection between a replica and a node: data, messages and heartbeats, each in a packet of its own.

A packet is a byte that says which, 4 bytes of length, and so many bytes. Each end sends a heartbeat every half second;
one from which nothing comes for longer than the other's patience is taken for dead, even if its system still answers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio.abc import ByteSendStream, ByteStream
from pydantic import BaseModel, Field, ValidationError

from codemode_server.domain.executions import IsolationLevel
from codemode_server.processes.stream_readers import FrameBuffer, FrameReader, FramingError, framed
from codemode_server.sandbox.contract import Limits, Outcome

BEAT_SECONDS = 0.5
_DATA, _MESSAGE, _BEAT = 0, 1, 2
_MAX_PACKET_BYTES = 256 * 2**10
_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
M = TypeVar("M", bound=BaseModel)


class LinkLost(Exception):
    """Raised when the other end is gone, or sends something else than it should; says which."""


class Request(BaseModel):
    """What a node knows of a program beside its frames."""

    version: str
    limits: Limits | None = None
    """None: there is no program, the replica only asks how the node is."""
    workspace: str | None = None
    """Name of its folder in the node's `--workspaces`."""
    session_id: str = ""
    is_last: bool = False


class NodeState(BaseModel):
    level: IsolationLevel
    has_workspace: bool
    """Of a program: it has one. Otherwise: programs can have one."""
    problem: str = Field(default="", max_length=2_000)
    """Why the request is refused."""
    is_busy: bool = False


class Ended(BaseModel):
    has_begun: bool
    outcome: Outcome
    """As far as the node knows it. If the program returned or raised, only the replica knows more."""


class Link(ByteSendStream):
    """`receive` and `send` are the data, whose frames `frames` reads; a message ends the data. Each direction is used
    by one task, besides heartbeats."""

    def __init__(self, stream: ByteStream, patience_s: float) -> None:
        self._stream = stream
        self.frames = FrameReader(self)
        self._patience_s = patience_s
        self._packets = FrameBuffer(prefix_bytes=1)
        self._sending = anyio.Lock(fast_acquire=True)
        self.last_message: bytes | None = None
        """What came in place of further data."""
        self.problem = ""
        """Why nothing more can come; empty while it can."""
        self.on_end: Callable[[], None] = lambda: None
        """Called once no more data will come."""

    async def hear(self, max_bytes: int = _MAX_PACKET_BYTES, *, is_stranger: bool = False) -> bytes:
        """The next message. Raises `LinkLost`. A stranger may send no heartbeats, which cost time to read."""
        kind, data = await self._next(max_bytes, is_stranger=is_stranger)
        if kind != _MESSAGE:
            raise LinkLost("it sent data in place of a message")
        return data

    async def tell(self, message: BaseModel | bytes) -> None:
        """Raises `BrokenResourceError` if the other end is gone."""
        await self._send(_MESSAGE, message if isinstance(message, bytes) else message.model_dump_json().encode())

    async def receive(self, max_bytes: int = _MAX_PACKET_BYTES) -> bytes:
        """The data of one packet. Raises `EndOfStream` at a message, or when the other end is gone."""
        if self.last_message is None:
            with suppress(LinkLost):
                kind, data = await self._next(_MAX_PACKET_BYTES)
                if kind == _DATA:
                    return data
                self.last_message = data
        self.on_end()
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Raises `BrokenResourceError` if the other end is gone."""
        for start in range(0, len(item), _MAX_PACKET_BYTES):
            await self._send(_DATA, item[start : start + _MAX_PACKET_BYTES])

    async def beat(self) -> None:
        """Send a heartbeat, unless something is being sent, which counts as one."""
        if not self._sending.locked():
            with suppress(anyio.BrokenResourceError):
                await self._send(_BEAT, b"")

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    async def _send(self, kind: int, data: bytes) -> None:
        async with self._sending:
            try:
                await self._stream.send(bytes([kind]) + framed(data))
            except _CLOSED:
                self.on_end()
                raise anyio.BrokenResourceError from None

    async def _next(self, max_bytes: int, *, is_stranger: bool = False) -> tuple[int, bytes]:
        """The next packet that is no heartbeat. Raises `LinkLost`."""
        try:
            while not self.problem:
                if (packet := self._packets.take(max_bytes)) is None:
                    with anyio.fail_after(self._patience_s):
                        self._packets.add(await self._stream.receive(_MAX_PACKET_BYTES))
                elif packet[0] != _BEAT or is_stranger:
                    return packet[0], packet[1:]
        except TimeoutError:
            self.problem = "it does not answer"
        except FramingError as error:
            self.problem = f"it broke the protocol: {error}"
        except _CLOSED:
            self.problem = "it has closed the connection"
        raise LinkLost(self.problem)


def parsed(model: type[M], message: bytes) -> M:
    """A message of that kind. Raises `LinkLost` if it is another."""
    try:
        return model.model_validate_json(message)
    except ValidationError:
        raise LinkLost("it sent another message than was expected") from None
