"""How files of the usual formats begin. Pure."""

from __future__ import annotations

import binascii
import re

_BEGINNINGS = tuple(
    (re.compile(begins, re.DOTALL), mime_type)
    for begins, mime_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF.{4}WEBP", "image/webp"),
        (rb"RIFF.{4}WAVE", "audio/wav"),
        (rb"ID3|\xff[\xe2-\xe7\xea-\xef\xf2-\xf7\xfa-\xff].", "audio/mpeg"),
        (rb"OggS", "audio/ogg"),
        (rb"fLaC", "audio/flac"),
        (rb".{4}ftyp(?:M4A|mp4|iso)", "audio/mp4"),
        (rb"%PDF-", "application/pdf"),
        (rb"PK\x03\x04", "application/zip"),
        (rb"SQLite format 3\0", "application/vnd.sqlite3"),
    )
)


def file_type(data: bytes) -> str:
    """The media type that the first bytes of a file show; empty if they show none."""
    return next((mime_type for begins, mime_type in _BEGINNINGS if begins.match(data)), "")


def type_of_base64(text: str) -> str:
    """The media type that the beginning of base64 shows; empty if it shows none."""
    try:
        return file_type(binascii.a2b_base64(standard_base64(text[:32])))
    except (binascii.Error, ValueError):
        return ""


def standard_base64(text: str) -> bytes:
    """Base64 of either alphabet in the usual one, without line breaks. Raises `ValueError` if it is no ASCII."""
    plain = text.encode("ascii")
    if any(mark in plain[:200] for mark in b"\r\n"):
        plain = b"".join(plain.split())
    return plain.replace(b"-", b"+").replace(b"_", b"/")
