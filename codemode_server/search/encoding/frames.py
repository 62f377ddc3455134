"""Messages to and from the encoder's process: a line of JSON, then vectors as bytes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from codemode_server.processes.framing import FrameBuffer, FramingError, frame

_MAX_JSON_BYTES = 8 * 2**20
_MAX_FRAME_BYTES = _MAX_JSON_BYTES + 64 * 2**20


class Message(NamedTuple):
    fields: dict[str, Any]
    vectors: bytes
    """Rows of float32 in native byte order: both processes run on the same machine."""


def encode(fields: dict[str, Any], vectors: bytes = b"") -> bytes:
    return frame(json.dumps(fields).encode() + b"\n" + vectors)


def take(buffer: FrameBuffer) -> Message | None:
    """Removes the first message from the buffer; None if it is incomplete.

    Raises:
        FramingError: the bytes are not a valid message.
    """
    data = buffer.take(_MAX_FRAME_BYTES)
    if data is None:
        return None
    text, _, vectors = data.partition(b"\n")
    if len(text) > _MAX_JSON_BYTES:
        raise FramingError("the JSON of a frame is too large")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FramingError("a frame is not JSON") from error
    if not isinstance(fields, dict):
        raise FramingError("a frame is not a JSON object")
    return Message(fields, vectors)
