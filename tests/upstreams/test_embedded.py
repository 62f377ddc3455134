"""Which strings of a value are files in base64: only those of which something says so; hashes, keys and cursors stay.

A string that is not taken for a file reaches the model as it is, one that is reaches it as a summary.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import random
from typing import Any

import pytest

from codemode_server.upstreams.embedded_files import embedded_files
from codemode_server.upstreams.results import to_reply

NOISE = random.Random(1).randbytes(600)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + NOISE).decode()
WAV = base64.b64encode(b"RIFF\0\0\0\0WAVE" + NOISE).decode()
BYTES = base64.b64encode(b"\0\1" + NOISE).decode()
WRAPPED = "\n".join(BYTES[start : start + 60] for start in range(0, len(BYTES), 60))
KEY = base64.b64encode(b"\x30\x82" + NOISE).decode()
CURSOR = base64.urlsafe_b64encode(gzip.compress(NOISE)).decode()
HEX = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(8))
SOUND = base64.b64encode(b"\xff\xfb" + NOISE).decode()
"""As the frame of an MP3 begins, and one token of 5,000."""
JWT = f"{base64.urlsafe_b64encode(NOISE).decode()}.{base64.urlsafe_b64encode(NOISE).decode()}"

FILES: dict[str, tuple[Any, list[str | int], str | None]] = {
    "a content block": ({"type": "image", "data": PNG, "mimeType": "image/png"}, ["data"], "image/png"),
    "in lists": ({"a": [1, {"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}, ["a", 1, "data"], "audio/wav"),
    "a resource": ({"resource": {"uri": "d://a/b.db", "blob": BYTES}}, ["resource", "blob"], None),
    "a data URI": ({"url": f"data:image/webp;base64,{BYTES}"}, ["url"], "image/webp"),
    "a data URI with a name": (f"data:image/webp;name=a b.webp;base64,{BYTES}", [], "image/webp"),
    "a data URI alone": (f"data:image/webp;charset=x;base64,{BYTES}", [], "image/webp"),
    "a picture under any name": ({"screenshot": PNG}, ["screenshot"], "image/png"),
    "a picture alone": (PNG, [], "image/png"),
    "an encoding is named": ({"encoding": "base64", "content": WRAPPED, "path": "x"}, ["content"], None),
    "as other APIs have it": ({"type": "base64", "media_type": "image/png", "data": BYTES}, ["data"], "image/png"),
    "an attachment": ({"mimeType": "application/x-tar", "size": 9, "data": CURSOR}, ["data"], "application/x-tar"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_is_found_where_it_is_declared_or_its_first_bytes_tell(what: str) -> None:
    value, path, media_type = FILES[what]
    (file,) = embedded_files(value)
    assert (file["at"], file["mime_type"]) == (path, media_type)


@pytest.mark.parametrize(
    "value",
    [
        {"sha": HEX, "digest": BYTES},
        {"publicKey": KEY, "key": BYTES, "signature": BYTES, "token": JWT},
        {"next_cursor": CURSOR, "data": BYTES},
        {"type": "text", "data": BYTES},
        {"mimeType": "text/plain", "content": BYTES, "data": BYTES},
        {"mimeType": "application/json", "data": "a" * 400},
        {"type": "image", "data": "no base64: " + "a b " * 200, "mimeType": "image/png"},
        {"type": "image", "data": PNG[:100], "mimeType": "image/png"},
        {"blob": HEX},
        {"encoding": "utf-8", "content": BYTES},
        {"text": f"see {PNG}"},
        {"path": "/a" * 300},
        "A" * 400,
        "é" * 400,
        [BYTES, KEY, SOUND, 1, None],
    ],
)
def test_text_that_merely_looks_like_base64_is_no_file(value: Any) -> None:
    assert embedded_files(value) == []
    assert to_reply({"structuredContent": {"x": value}}).encoding == "json"


def test_a_file_that_came_as_a_block_and_within_the_object_is_sent_to_the_program_once() -> None:
    """`read_media_file` of the reference server sends both; the value is what its schema declares."""
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    value = {"content": [image]}
    reply = to_reply({"content": [image], "structuredContent": value})
    file = {"type": "file", "mime_type": "image/png", "name": None, "uri": None, "at": ["content", 0, "data"]}
    assert reply.value == [{"type": "json", "value": value, "beside": {"files": [file]}}]
