"""How files of the usual formats begin. Pure."""

from __future__ import annotations

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
