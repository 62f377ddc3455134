"""Packets of a microVM's supervisor: a guest whose kernel was taken over writes them, so any bytes may come."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import anyio
from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.sandbox.backends.microvm.wire import CONTROL, DATA, RECEIVED, Wire, WireBroken
from tests.fuzz.strategies import Stream, damaged, pieces, values

HEADER = struct.Struct(">BI")


def packet(kind: int, data: bytes) -> bytes:
    return HEADER.pack(kind, len(data)) + data


control = st.one_of(
    st.sampled_from(["ready", "ended", "over", "gone", "other"]).map(lambda op: {"op": op}),
    st.fixed_dictionaries({"op": values}),
    values,
)
packets = st.one_of(
    st.binary(max_size=40).map(lambda data: packet(DATA, data)),
    st.binary(max_size=6).map(lambda data: packet(RECEIVED, data)),
    control.map(lambda message: packet(CONTROL, json.dumps(message).encode())),
)
streams = pieces(damaged(st.lists(packets, max_size=8).map(b"".join)))


@given(streams)
@example([packet(CONTROL, b"[" * 60_000)])
@example([packet(CONTROL, b'{"op": ' + b"9" * 5_000 + b"}")])
@example([packet(CONTROL, b"\xff")])
@example([packet(CONTROL, b'{"op": "ready"}') * 2_000])
def test_whatever_a_keeper_sends_is_taken_in_or_breaks_the_wire(cut: list[bytes]) -> None:
    async def read() -> None:
        wire = Wire(Stream(cut))
        wire.is_program_over = False
        with contextlib.suppress(WireBroken):
            await wire.until(lambda: False)
        assert wire.is_broken
        assert len(wire._messages) <= 100, "messages that nobody waits for take memory without end"
        assert all(isinstance(message, dict) for message in wire._messages)

    anyio.run(read)


@given(st.lists(st.binary(max_size=60), max_size=8), st.data())
def test_the_program_gets_its_bytes_in_order(sent: list[bytes], data: Any) -> None:
    cut = data.draw(pieces(st.just(b"".join(packet(DATA, it) for it in sent))))

    async def read() -> bytes:
        wire = Wire(Stream(cut))
        wire.is_program_over = False
        got = b""
        try:
            while True:
                got += await wire.program.receive(data.draw(st.integers(1, 50)))
        except anyio.EndOfStream:
            return got

    assert anyio.run(read) == b"".join(sent)
