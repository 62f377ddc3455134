"""Finds files that an upstream put into a value as base64, so that the model is shown a summary in their place. Pure.

A string is taken for a file only if something says so: it is a `data:` URI, the object around it names an encoding or a
media type (`{"type": "image", "data": …, "mimeType": …}`), or its first bytes are the signature of a file format.
Hashes, tokens, keys and cursors are base64 as well, and stay what they are.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.guest.encoded import DATA_URI_START, MIN_CHARACTERS
from codemode_server.upstreams.file_types import standard_base64, type_of_base64

_MAX_FILES = 1_000
_MEDIA_TYPE = re.compile(r"[a-z0-9][\w.+-]{0,80}/[\w.+-]{1,80}", re.IGNORECASE)
_TYPE_KEYS = ("mimeType", "mime_type", "media_type", "mediaType", "contentType", "content_type")
_NAME_KEYS = ("filename", "fileName", "file_name", "name", "title")
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/jwt", "application/x-pem")
_BYTES_KEYS = ("data", "blob", "bytes", "base64")
_ENCODED_KEYS = (*_BYTES_KEYS, "content", "body", "contents")


def embedded_files(value: JsonValue) -> list[dict[str, Any]]:
    """File blocks, as `Reply` has them, with `at`, the path to the string in `value`, in place of `data`."""
    found: list[dict[str, Any]] = []
    for path, text, around in _long_strings(value, [], {}):
        if (file := _file(path, text, around)) is not None:
            found.append(file)
            if len(found) == _MAX_FILES:
                break
    return found


def _long_strings(
    value: JsonValue, path: list[str | int], around: dict[str, Any]
) -> Iterator[tuple[list[str | int], str, dict[str, Any]]]:
    """Each long string with its path and the object that it is a field of, in the order of the value, which is nested
    no deeper than `MAX_VALUE_DEPTH`."""
    if isinstance(value, str):
        if len(value) >= MIN_CHARACTERS:
            yield [*path], value, around
        return
    listed = enumerate(value) if isinstance(value, list) else ()
    for step, item in value.items() if isinstance(value, dict) else listed:
        if isinstance(item, dict | list | str):
            path.append(step)
            yield from _long_strings(item, path, value if isinstance(value, dict) else {})
            path.pop()


def _file(path: list[str | int], text: str, around: dict[str, Any]) -> dict[str, Any] | None:
    uri = DATA_URI_START.match(text[:400])
    encoded = text[uri.end() :] if uri else text
    media_type = (uri["type"] or "text/plain") if uri else _media_type(str(path[-1]) if path else "", encoded, around)
    if media_type is None or not _is_base64(encoded):
        return None
    location = around.get("uri")
    uri_of_file = location if isinstance(location, str) and DATA_URI_START.match(location[:400]) is None else None
    name = next((around[key] for key in _NAME_KEYS if isinstance(around.get(key), str)), None)
    name = name or (uri_of_file or "").rstrip("/").rpartition("/")[2] or None
    if name is not None and len(name) >= MIN_CHARACTERS:
        name = None
    return {"type": "file", "mime_type": media_type or None, "name": name, "uri": uri_of_file, "at": path}


def _media_type(key: str, text: str, around: dict[str, Any]) -> str | None:
    """The media type of a string that is declared to be a file, empty if not known; None if nothing declares it."""
    said = next((around[name] for name in _TYPE_KEYS if isinstance(around.get(name), str)), "")
    said = said.partition(";")[0].strip().lower()
    said = said if _MEDIA_TYPE.fullmatch(said) else ""
    is_media = around.get("type") in ("image", "audio") or (said and not said.startswith(_TEXT_TYPES))
    is_declared = (
        (key in _ENCODED_KEYS and around.get("encoding") == "base64")
        or (key == "data" and around.get("type") == "base64")
        or (key == "blob" and (said or isinstance(around.get("uri"), str)))
        or (key in _BYTES_KEYS and is_media)
    )
    if is_declared:
        return said or type_of_base64(text)
    found = type_of_base64(text)
    # The frame of a sound begins with few known bits, as a token may.
    return found if found and (found != "audio/mpeg" or text.startswith("SUQz")) else None


def _is_base64(text: str) -> bool:
    try:
        plain = standard_base64(text)
        binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return True
