"""Estimates the memory that the texts of a frame take once it is parsed."""

from __future__ import annotations

_TEXT_BYTES = 100
_NARROW_BYTES = bytes(range(0xF0))
"""The bytes that occur in the UTF-8 of characters up to U+FFFF."""
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


def text_memory(data: bytes) -> int:
    """Memory that a frame's texts take at most: the widest character of a text sets what each of it takes."""
    characters, width = len(data), 1
    if b"\\u" in data:
        width = 4
    elif not data.isascii():
        width = 4 if len(data.translate(None, _NARROW_BYTES)) else 2
        characters = len(data.translate(None, _CONTINUATION_BYTES))
    return _TEXT_BYTES + characters * width
