"""The wire: what a guest may say, and that everything else is a protocol error, never another exception."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import ANY

import pytest

from codemode_server.sandbox import frames
from codemode_server.sandbox.contract import ProgramError

DONE: dict[str, Any] = {"op": "done", "id": "r", "value": [1], "value_form": "json", "error": None}
CALL: dict[str, Any] = {"op": "call", "id": 1, "server": "s", "tool": "t", "arguments": {}}
READ: dict[str, Any] = {"op": "read", "id": 1, "server": "s", "uri": "d://x"}
WRONG: list[Any] = [None, 1.5, [], True]
WRONG_ERRORS: list[Any] = ["x", {}, {"type": 1, "message": "", "traceback": ""}]


def parsed(frame: Any) -> frames.GuestFrame:
    return frames.parse(json.dumps(frame).encode())


def test_each_frame_becomes_its_record() -> None:
    assert parsed(CALL | {"more": 1}) == frames.Call(1, "s", "t", {}, len(json.dumps(CALL | {"more": 1})), ANY)
    assert parsed(CALL | {"raw": True}) == frames.Call(
        1, "s", "t", {}, len(json.dumps(CALL | {"raw": True})), ANY, True
    )
    assert parsed(READ) == frames.Read(1, "s", "d://x", {}, len(json.dumps(READ)), ANY)
    template = READ | {"arguments": {"id": 7}}
    assert parsed(template) == frames.Read(1, "s", "d://x", {"id": 7}, len(json.dumps(template)), ANY)
    assert parsed({"op": "resources", "id": 2, "server": "s"}) == frames.Resources(2, "s")
    assert parsed({"op": "load", "id": 2, "module": "m"}) == frames.Load(2, "m")
    assert parsed({"op": "output", "stream": "stderr", "text": "x"}) == frames.Output("stderr", "x")
    assert parsed({"op": "exceeded", "setting": "limits.call_bytes"}) == frames.Exceeded("limits.call_bytes")
    search = {"op": "search", "id": 3, "query": "q", "detail_level": "full", "limit": 5}
    assert parsed(search) == frames.Search(3, "q", "full", None, 5)
    assert parsed(search | {"effect": "reads"}) == frames.Search(3, "q", "full", None, 5, "reads")
    shown = {"op": "show", "id": 4, "data": "YWJj", "mime_type": "image/png"}
    assert parsed(shown) == frames.Show(4, b"abc", "image/png", None)
    assert parsed({"op": "artifact", "id": 5, "name": "x1"}) == frames.Artifact(5, "x1")
    assert parsed({"op": "artifact", "id": 6}) == frames.Artifact(6, None)
    assert parsed(DONE | {"hint": "h" * 9_000}).hint == "h" * 1_000  # type: ignore[union-attr]
    assert parsed(DONE) == frames.Done("r", [1], "json", None, len(json.dumps(DONE)))


def test_an_error_is_bounded() -> None:
    error = {"type": "E" * 1_000, "message": "m" * 100_000, "traceback": "t" * 100_000, "line": 3}
    frame = parsed(DONE | {"error": error})
    assert isinstance(frame, frames.Done)
    assert frame.error == ProgramError("E" * 200, "m" * 20_000, "t" * 20_000, 3)


@pytest.mark.parametrize(
    "frame",
    [
        *[CALL | {key: value} for key in ("id", "server", "tool", "arguments") for value in WRONG],
        *[READ | {key: value} for key in ("id", "server", "uri") for value in WRONG],
        *[CALL | {"raw": value} for value in (None, 1, "true")],
        READ | {"uri": "x" * (frames.MAX_URI + 1)},
        *[DONE | {"error": error} for error in WRONG_ERRORS],
        DONE | {"error": {"type": "", "message": "", "traceback": "", "line": "3"}},
        DONE | {"value_form": "bytes"},
        {"op": "run", "id": 1, "code": "1"},
        {"op": ["call"]},
        {},
        [],
        None,
        "call",
    ],
)
def test_a_frame_of_the_wrong_shape_is_a_protocol_error(frame: Any) -> None:
    with pytest.raises(frames.ProtocolError):
        parsed(frame)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"op": "load", "id": NaN, "module": "m"}',
        b'{"op": "load", "id": ' + b"9" * 5_000 + b', "module": "m"}',
        b"[" * 100_000,
        b'{"op": "call", "arguments": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"op": "call", "id": 1, "server": "s", "tool": "t", "arguments": {"x": ' + b"[" * 200 + b"]" * 200 + b"}}",
    ],
)
def test_bytes_that_are_no_frame_are_a_protocol_error(data: bytes) -> None:
    with pytest.raises(frames.ProtocolError):
        frames.parse(data)


def test_nesting_up_to_the_limit_is_read() -> None:
    depth = frames.MAX_DEPTH - 2
    value: Any = 0
    for _ in range(depth):
        value = [value]
    frame = parsed(CALL | {"arguments": {"x": value}})
    assert isinstance(frame, frames.Call)
    assert frame.arguments == {"x": value}
