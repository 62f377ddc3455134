"""The size of a picture in pixels, from the first bytes of a PNG, JPEG, GIF or WebP file."""

from __future__ import annotations

import struct

_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height, or None where the bytes do not tell."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
            return _pair(">II", data, 16)
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return _pair("<HH", data, 6)
        if data[:2] == b"\xff\xd8":
            return _of_jpeg(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _of_webp(data)
    except (struct.error, IndexError):
        pass  # cut off in its header
    return None


def _pair(form: str, data: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, place)
    return first, second


def _of_jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:  # filled up
            place += 1
            continue
        if marker in _JPEG_SIZES:
            height, width = _pair(">HH", data, place + 5)
            return width, height
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            place += 2
        elif marker in (0xD9, 0xDA):
            return None
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return None


def _of_webp(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = _pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None
