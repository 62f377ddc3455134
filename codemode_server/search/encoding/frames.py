"""Messages between the search and the encoder's process: in each frame a line of JSON, then vectors as bytes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from codemode_server.processes.framing import FrameBuffer, FramingError, frame

_MAX_JSON_BYTES = 8 * 2**20
_MAX_FRAME_BYTES = _MAX_JSON_BYTES + 64 * 2**20


class Message(NamedTuple):
    """One message."""

    fields: dict[str, Any]
    vectors: bytes
    """Rows of float32 in the machine's own order: both ends are on it."""


def encoded(fields: dict[str, Any], vectors: bytes = b"") -> bytes:
    return frame(json.dumps(fields).encode() + b"\n" + vectors)


def taken(buffer: FrameBuffer) -> Message | None:
    """The first message, taken off the buffer; None while it is not whole.

    Raises:
        FramingError: what has come is no message.
    """
    data = buffer.take(_MAX_FRAME_BYTES)
    if data is None:
        return None
    text, _, vectors = data.partition(b"\n")
    if len(text) > _MAX_JSON_BYTES:
        raise FramingError("the JSON of a frame is larger than any may be")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FramingError("a frame is no JSON") from error
    if not isinstance(fields, dict):
        raise FramingError("a frame is no message")
    return Message(fields, vectors)
