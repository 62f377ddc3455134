"""What is said between the search and the encoder's process: two lengths, JSON, and vectors as bytes."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

_LENGTHS = struct.Struct(">II")
_MAX_JSON_BYTES = 8 * 2**20
_MAX_VECTOR_BYTES = 64 * 2**20


class Frame(NamedTuple):
    """One message."""

    message: dict[str, Any]
    vectors: bytes
    """Rows of float32 in the machine's own order: both ends are on it."""


class FrameError(Exception):
    """Raised for bytes that are no frame."""


def encoded(message: dict[str, Any], vectors: bytes = b"") -> bytes:
    text = json.dumps(message).encode()
    return _LENGTHS.pack(len(text), len(vectors)) + text + vectors


def taken(buffer: bytearray) -> Frame | None:
    """The first frame, taken off the buffer; none while it is not whole."""
    if len(buffer) < _LENGTHS.size:
        return None
    text_size, vector_size = _LENGTHS.unpack_from(buffer)
    if text_size > _MAX_JSON_BYTES or vector_size > _MAX_VECTOR_BYTES:
        raise FrameError("a frame is larger than any may be")
    middle, end = _LENGTHS.size + text_size, _LENGTHS.size + text_size + vector_size
    if len(buffer) < end:
        return None
    try:
        message = json.loads(buffer[_LENGTHS.size : middle])
    except (ValueError, RecursionError) as error:
        raise FrameError("a frame is no JSON") from error
    if not isinstance(message, dict):
        raise FrameError("a frame is no message")
    vectors = bytes(buffer[middle:end])
    del buffer[:end]
    return Frame(message, vectors)
