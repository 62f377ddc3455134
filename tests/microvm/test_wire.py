"""The host's end of a microVM's stream: windows, answers, and a supervisor that breaks off. The other end is written
out here packet by packet; tests/sandbox has a real supervisor."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from codemode_server.processes.stream_readers import FrameBuffer
from codemode_server.sandbox.backends.microvm.wire import Wire, WireBroken

HEADER = struct.Struct(">BI")
DATA, CONTROL, RECEIVED = 0, 1, 2
KIB = 2**10


class Supervisor:
    """The other end."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self._packets = FrameBuffer(prefix_bytes=1)

    async def send(self, kind: int, data: bytes) -> None:
        await self.stream.send(HEADER.pack(kind, len(data)) + data)

    async def say(self, **message: Any) -> None:
        await self.send(CONTROL, json.dumps(message).encode())

    async def next(self) -> tuple[int, bytes]:
        while (packet := self._packets.take(2**20)) is None:
            self._packets.add(await self.stream.receive())
        return packet[0], packet[1:]


@asynccontextmanager
async def ends(folder: Path) -> AsyncIterator[tuple[Wire, Supervisor]]:
    found: list[anyio.abc.SocketStream] = []
    listener = await anyio.create_unix_listener(folder / "s")
    async with listener, anyio.create_task_group() as tasks:

        async def accept() -> None:
            found.append(await listener.accept())

        tasks.start_soon(accept)
        peer = await anyio.connect_unix(folder / "s")
    wire = Wire(found[0])
    async with peer:
        yield wire, Supervisor(peer)
        await wire.aclose()


async def started(wire: Wire, supervisor: Supervisor) -> None:
    await wire.begin(64, 16)
    assert json.loads((await supervisor.next())[1]) == {"op": "begin", "memory_mb": 64, "disk_mb": 16}


async def test_what_the_program_sends_arrives_in_order_and_is_answered(tmp_path: Path) -> None:
    async with ends(tmp_path) as (wire, supervisor):
        await started(wire, supervisor)
        for piece in (b"a" * 16 * KIB, b"b" * 16 * KIB, b"c"):
            await supervisor.send(DATA, piece)
        got = b""
        while len(got) < 32 * KIB + 1:
            got += await wire.program.receive()
        assert got == b"a" * 16 * KIB + b"b" * 16 * KIB + b"c"
        kind, answered = await supervisor.next()
        assert kind == RECEIVED
        assert int.from_bytes(answered, "big") >= 32 * KIB


async def test_no_more_is_on_its_way_to_the_keeper_than_it_has_answered(tmp_path: Path) -> None:
    async with ends(tmp_path) as (wire, supervisor):
        await started(wire, supervisor)
        sent = anyio.Event()

        async def send() -> None:
            await wire.program.send(b"x" * 600 * KIB)
            sent.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            came = 0
            while came < 256 * KIB:
                came += len((await supervisor.next())[1])
            with anyio.move_on_after(0.2) as silence:
                await supervisor.next()
            assert silence.cancelled_caught, "more than the window came"
            assert came == 256 * KIB
            while not sent.is_set():
                await supervisor.send(RECEIVED, came.to_bytes(4, "big"))
                came = 0
                with anyio.move_on_after(0.2):
                    while came < 256 * KIB:
                        came += len((await supervisor.next())[1])


async def test_waiting_to_send_does_not_keep_what_comes_in(tmp_path: Path) -> None:
    """A program that asks for much while it sends much: neither side may wait for the other."""
    async with ends(tmp_path) as (wire, supervisor):
        await started(wire, supervisor)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.program.send, b"x" * 300 * KIB)
            came = 0
            while came < 256 * KIB:
                came += len((await supervisor.next())[1])
            await supervisor.send(DATA, b"question")
            assert await wire.program.receive() == b"question"
            await supervisor.send(RECEIVED, came.to_bytes(4, "big"))


async def test_the_end_of_a_program_drops_what_was_on_its_way(tmp_path: Path) -> None:
    async with ends(tmp_path) as (wire, supervisor):
        await started(wire, supervisor)
        await supervisor.send(DATA, b"late")
        await supervisor.say(op="ended", clean=True, over=False)
        assert (await wire.end())["clean"] is True
        await supervisor.say(op="ready", python="3.14.0", pid=7)
        await supervisor.next()  # `end`
        await started(wire, supervisor)
        await supervisor.send(DATA, b"fresh")
        assert await wire.program.receive() == b"fresh"


async def test_a_runner_that_is_gone_ends_the_stream_after_its_last_words(tmp_path: Path) -> None:
    async with ends(tmp_path) as (wire, supervisor):
        await started(wire, supervisor)
        await supervisor.send(DATA, b"last words")
        await supervisor.say(op="gone", status=3, memory=False)
        assert await wire.program.receive() == b"last words"
        with pytest.raises(anyio.EndOfStream):
            await wire.program.receive()
        assert wire.gone == {"op": "gone", "status": 3, "memory": False}


async def test_a_flood_that_nobody_has_answered_breaks_the_wire(tmp_path: Path) -> None:
    """An honest supervisor has 128 KiB on its way; one that has more would fill the host's memory."""
    async with ends(tmp_path) as (wire, supervisor):
        await started(wire, supervisor)
        async with anyio.create_task_group() as tasks:

            async def flood() -> None:
                try:
                    for _ in range(40):
                        await supervisor.send(DATA, b"x" * 16 * KIB)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

            tasks.start_soon(flood)
            with anyio.fail_after(5), pytest.raises(WireBroken):
                await wire.until(lambda: False)
            tasks.cancel_scope.cancel()
        assert len(wire.data) < 600 * KIB
