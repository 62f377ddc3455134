"""Frames of a guest and packets of a microVM's supervisor, both taken for hostile: read, or refused."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.processes.stream_readers import FrameReader, FramingError
from codemode_server.sandbox.backends.microvm.wire import CONTROL, DATA, RECEIVED, Wire, WireBroken
from codemode_server.sandbox.frames import MAX_DEPTH, ProtocolError, parse
from tests.fuzz.strategies import (
    Stream,
    damaged,
    encoded,
    has_surrogates,
    is_whole,
    objects,
    pieces,
    spellings,
    texts,
    values,
)

FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "call": {"id": st.integers(0, 9), "server": texts, "tool": texts, "arguments": objects, "raw": st.booleans()},
    "read": {"id": st.integers(0, 9), "server": texts, "uri": texts},
    "load": {"id": st.integers(0, 9), "module": texts},
    "search": {
        "id": st.integers(0, 9),
        "query": texts,
        "detail_level": texts,
        "server": st.none() | texts,
        "limit": st.integers(),
        "effect": st.none() | texts,
    },
    "show": {"id": st.integers(0, 9), "data": st.just("AAAA"), "mime_type": st.none() | texts, "name": texts},
    "artifact": {"id": st.integers(0, 9), "name": st.none() | texts},
    "output": {"stream": st.sampled_from(["stdout", "stderr"]), "text": texts},
    "line": {"line": st.integers(1, 99)},
    "exceeded": {"setting": st.sampled_from(["limits.call_bytes", "limits.value_bytes"])},
    "done": {"value": values, "value_form": st.sampled_from(["none", "json", "repr"]), "hint": texts},
}
frames = st.one_of([st.fixed_dictionaries({"op": st.just(op), **fields}) for op, fields in FIELDS.items()])
loose_frames = st.fixed_dictionaries(
    {"op": st.one_of(st.sampled_from(sorted(FIELDS)), values)},
    optional={field: st.one_of(values, kind) for fields in FIELDS.values() for field, kind in fields.items()},
)


def with_length(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(damaged(st.builds(encoded, st.one_of(frames, loose_frames, values), spellings)))
@example(b"[" * 100_000)
@example(b'{"op":"done","id":"a","value_form":"json","value":' + b"[" * 140 + b"]" * 140 + b"}")
@example(b'{"op":"call","id":1,"server":"a","tool":"b","arguments":{"a":' + b"[" * 128 + b"]" * 128 + b"}}")
@example(b'{"op":"call","id":1,"server":"a","tool":"b","arguments":{"a":1e999}}')
@example(b'{"op":"call","id":1,"server":"a","tool":"b","arguments":{"a":NaN}}')
@example(b'{"op": "done", "value": ' + b"9" * 5_000 + b"}")
@example('{"op":"line","line":1}'.encode("utf-16"))
def test_whatever_a_guest_sends_is_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = parse(data)
    except ProtocolError:
        return
    fields = frame.model_dump()
    fields.pop("data", None)
    assert is_whole(fields), "it can't be recorded or sent on"
    assert depth_of(fields.get("arguments")) <= MAX_DEPTH
    assert depth_of(fields.get("value")) <= MAX_DEPTH


@given(frames.filter(lambda frame: not has_surrogates(frame)), spellings)
def test_an_honest_frame_says_what_it_said(frame: dict[str, Any], how: int) -> None:
    said = parse(encoded(frame, how)).model_dump()
    for field in ("id", "server", "tool", "arguments", "uri", "module", "name", "text", "stream", "line", "value"):
        if field in frame:
            assert said[field] == frame[field]


@given(pieces(st.lists(st.binary(max_size=30).map(with_length), max_size=6).map(b"".join)))
def test_a_stream_gives_the_same_frames_wherever_it_is_cut(cut: list[bytes]) -> None:
    whole, frames = b"".join(cut), []
    while whole:
        (size,) = struct.unpack_from(">I", whole)
        frames.append(whole[4 : 4 + size])
        whole = whole[4 + size :]

    async def read() -> None:
        reader = FrameReader(Stream(cut))
        assert [await reader.read(30) for _ in frames] == frames
        assert reader.is_empty
        with pytest.raises(anyio.EndOfStream):
            await reader.read(30)

    anyio.run(read)


@given(pieces(st.lists(st.binary(max_size=24).map(with_length), max_size=4).map(b"".join)), st.integers(0, 20))
@example([with_length(b"abc")], 2)
def test_a_frame_that_is_too_long_is_refused_by_its_header(cut: list[bytes], longest: int) -> None:
    async def read() -> None:
        reader = FrameReader(Stream(cut))
        try:
            while True:
                assert len(await reader.read(longest)) <= longest
        except (FramingError, anyio.EndOfStream):
            pass

    anyio.run(read)


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
