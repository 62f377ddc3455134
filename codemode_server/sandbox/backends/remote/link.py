"""One connection between a replica and a node: data, messages and heartbeats, each in a packet of its own.

A packet is one byte for its kind, 4 bytes for the length of its content, and the content. Each end sends a heartbeat
every half second. An end that receives nothing for `timeout_s` takes the other one for dead, even if the other machine
still acknowledges what is sent to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio.abc import ByteSendStream, ByteStream
from pydantic import BaseModel, Field, ValidationError

from codemode_server.domain.executions import IsolationLevel
from codemode_server.processes.stream_readers import FrameBuffer, FrameReader, FramingError, framed
from codemode_server.sandbox.contract import Limits, Outcome

_HEARTBEAT_SECONDS = 0.5
_DATA, _MESSAGE, _HEARTBEAT = 0, 1, 2
_MAX_PACKET_BYTES = 256 * 2**10
_CLOSED = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
M = TypeVar("M", bound=BaseModel)


class LinkLost(Exception):
    """Raised when the other end is gone or breaks the protocol; the message says which."""


class Request(BaseModel):
    """Asks a node for its state, or to run a program. The frames of the program follow separately."""

    version: str
    limits: Limits | None = None
    """Those of the program; None if the replica only asks for the state of the node."""
    workspace: str | None = None
    """Name of the program's folder in the node's `--workspaces`; None if it has no workspace."""
    session_id: str = ""
    is_last: bool = False


class NodeState(BaseModel):
    level: IsolationLevel
    has_workspace: bool
    """Whether the program has a /workspace; without a program, whether the node can give it one."""
    problem: str = Field(default="", max_length=2_000)
    """Why the request is refused; empty if it is accepted."""
    is_busy: bool = False
    """It is refused only because the node runs as many programs as it may."""


class ProgramEnd(BaseModel):
    has_begun: bool
    outcome: Outcome
    """As far as the node knows it: it has no value and no output, which went to the replica in frames."""


class Link(ByteSendStream):
    """`send` and `receive` transfer data, which `frames` divides into frames; the data ends with the next message. At
    most one task sends at a time, and one receives; `send_heartbeats` may run beside them."""

    def __init__(self, stream: ByteStream, timeout_s: float) -> None:
        """`timeout_s`: how long nothing may come, not even a heartbeat."""
        self._stream = stream
        self.frames = FrameReader(self)
        self._timeout_s = timeout_s
        self._packets = FrameBuffer(prefix_bytes=1)
        self._sending = anyio.Lock(fast_acquire=True)
        self.last_message: bytes | None = None
        """The message that ended the data."""
        self.problem = ""
        """Why nothing more can be received; empty while that is possible."""
        self.on_end: Callable[[], None] = lambda: None
        """Called once no more data will come."""

    async def receive_message(self, max_bytes: int = _MAX_PACKET_BYTES, *, skips_heartbeats: bool = True) -> bytes:
        """The next message. Raises `LinkLost`, also for a heartbeat unless it `skips_heartbeats`: reading those of
        somebody who has not shown the token would take time from others."""
        kind, data = await self._next(max_bytes, skips_heartbeats=skips_heartbeats)
        if kind != _MESSAGE:
            raise LinkLost("it sent something else in place of a message")
        return data

    async def send_message(self, message: BaseModel | bytes) -> None:
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

    async def send_heartbeat(self) -> None:
        """Send a heartbeat, unless something else is being sent, which counts as one."""
        if not self._sending.locked():
            with suppress(anyio.BrokenResourceError):
                await self._send(_HEARTBEAT, b"")

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    async def _send(self, kind: int, data: bytes) -> None:
        async with self._sending:
            try:
                await self._stream.send(bytes([kind]) + framed(data))
            except _CLOSED:
                self.on_end()
                raise anyio.BrokenResourceError from None

    async def _next(self, max_bytes: int, *, skips_heartbeats: bool = True) -> tuple[int, bytes]:
        """Kind and content of the next packet. Raises `LinkLost`."""
        try:
            while not self.problem:
                if (packet := self._packets.take(max_bytes)) is None:
                    with anyio.fail_after(self._timeout_s):
                        self._packets.add(await self._stream.receive(_MAX_PACKET_BYTES))
                elif packet[0] != _HEARTBEAT or not skips_heartbeats:
                    return packet[0], packet[1:]
        except TimeoutError:
            self.problem = "it does not answer"
        except FramingError as error:
            self.problem = f"it broke the protocol: {error}"
        except _CLOSED:
            self.problem = "it has closed the connection"
        raise LinkLost(self.problem)


async def send_heartbeats(links: Collection[Link]) -> None:
    """Send heartbeats on all these links, which may change meanwhile; until cancelled."""
    async with anyio.create_task_group() as tasks:
        while True:
            await anyio.sleep(_HEARTBEAT_SECONDS)
            for link in links:
                tasks.start_soon(link.send_heartbeat)


def parsed(model: type[M], message: bytes) -> M:
    """The message as this model. Raises `LinkLost` if it is another one."""
    try:
        return model.model_validate_json(message)
    except ValidationError:
        raise LinkLost("it sent another message than was expected") from None
