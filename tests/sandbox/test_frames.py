"""The wire: what a guest may say; that all else is a protocol error, and no other exception, is shown by tests/fuzz."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode_server.sandbox import frames

DONE: dict[str, Any] = {"op": "done", "id": "r", "value": [1], "value_form": "json", "error": None}
CALL: dict[str, Any] = {"op": "call", "id": 1, "server": "s", "tool": "t", "arguments": {}}
READ: dict[str, Any] = {"op": "read", "id": 1, "server": "s", "uri": "d://x"}
SEARCH: dict[str, Any] = {"op": "search", "id": 3, "query": "q", "detail_level": "full", "limit": 5}
WRONG: list[Any] = [None, 1.5, [], True]
WRONG_ERRORS: list[Any] = ["x", {}, {"type": 1, "message": "", "traceback": ""}]


def parsed(frame: Any) -> frames.GuestFrame:
    return frames.parse(json.dumps(frame).encode())


FRAMES: list[tuple[dict[str, Any], type[frames.GuestFrame], dict[str, Any]]] = [
    (CALL | {"more": 1}, frames.Call, {"arguments": {}, "raw": False}),
    (CALL | {"raw": True, "size": 1, "memory": 1}, frames.Call, {"raw": True}),
    (READ, frames.Read, {"arguments": {}}),
    ({"op": "exceeded", "setting": "limits.call_bytes"}, frames.Exceeded, {"line": None}),
    ({"op": "line", "line": -1}, frames.Line, {"line": None}),
    (SEARCH, frames.Search, {"server": None, "effect": None}),
    ({"op": "show", "id": 4, "data": "YWJj", "mime_type": "image/png"}, frames.Show, {"data": b"abc", "name": None}),
    ({"op": "artifact", "id": 6}, frames.Artifact, {"name": None}),
    (DONE | {"hint": "h" * 9_000}, frames.Done, {"hint": "h" * 1_000}),
    (
        DONE | {"error": {"type": "E" * 1_000, "message": "m" * 100_000, "traceback": "t" * 100_000, "line": 3}},
        frames.Done,
        {"error": {"type": "E" * 200, "message": "m" * 20_000, "traceback": "t" * 20_000, "line": 3, "hint": ""}},
    ),
]


@pytest.mark.parametrize(("frame", "kind", "more"), FRAMES)
def test_each_frame_becomes_its_record(frame: dict[str, Any], kind: type[frames.GuestFrame], more: Any) -> None:
    made = parsed(frame)
    assert isinstance(made, kind)
    fields = made.model_dump()
    own = {key: value for key, value in frame.items() if key in fields and key not in ("size", "memory")}
    assert fields | own | more == fields, "bounded, and with all that it said"
    if isinstance(made, frames.HostCall):
        assert made.size == len(json.dumps(frame)), "whatever the guest says of it"


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


def test_nesting_up_to_the_limit_is_read() -> None:
    depth = frames.MAX_DEPTH - 2
    value: Any = 0
    for _ in range(depth):
        value = [value]
    frame = parsed(CALL | {"arguments": {"x": value}})
    assert isinstance(frame, frames.Call)
    assert frame.arguments == {"x": value}
