"""Writes the frames that the host sends to a guest; `frames` has the protocol."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from codemode_server.domain.executions import Repeat
from codemode_server.domain.ids import JsonValue
from codemode_server.json_values import MAX_VALUES, json_bytes
from codemode_server.processes import framing
from codemode_server.sandbox.contract import Program

_FRAME_VALUES = 1_000
"""More values than a frame holds beside its payload."""


def run_frame(run_id: str, program: Program) -> bytes:
    """The first frame to a guest; `run_id` is a secret of this run."""
    limits = program.limits
    passed_on = {
        "call_bytes": limits.call_bytes,
        "calls_in_flight": limits.calls_in_flight,
        "value_bytes": limits.max_value_bytes,
        "values": MAX_VALUES - _FRAME_VALUES,
    }
    frame = {"op": "run", "id": run_id, "execution_id": program.execution_id, "code": program.code}
    return encode({**frame, "limits": passed_on, "modules": program.modules, "repeat": _for_guest(program.repeat)})


def _for_guest(repeat: Repeat) -> dict[str, str]:
    """A program could find its key in its interpreter's memory, but never the seed."""
    return {"key": hashlib.blake2b(repeat.seed, digest_size=32, person=b"codemode guest").hexdigest()}


def reply_frame(request_id: int, value: JsonValue, encoding: str) -> tuple[bytes, ...]:
    """A reply, in pieces, since joining them would copy a large value once more.

    Raises:
        RecursionError: the value is nested too deep.
    """
    head = json.dumps({"op": "reply", "id": request_id, "ok": True, "encoding": encoding})[:-1].encode() + b',"value":'
    data = json_bytes(value)
    return framing.LENGTH.pack(len(head) + len(data) + 1) + head, data, b"}"


def refusal_frame(request_id: int, kind: str, message: str) -> bytes:
    """A reply that is an error."""
    return encode({"op": "reply", "id": request_id, "ok": False, "kind": kind, "message": message})


def encode(frame: dict[str, Any]) -> bytes:
    """A frame with its length."""
    return framing.frame(json_bytes(frame))
