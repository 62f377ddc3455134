"""Reads and writes texts in the encodings that files have, and texts that are JSON or base64 within a JSON value. Pure.

What is written again is what was read, but for what was replaced in it, and for white space between parts of JSON.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

_MIN_BASE64_CHARACTERS = 12
_MIN_LATIN_BYTES = 64
_MAX_LATIN_SHARE = 0.3
"""Share of bytes beyond ASCII in a text of a language with Latin letters."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_\r\n-]+={0,2}[\r\n]*")
_DECLARATION = "base64"
_DECLARED = re.compile(
    r"base64(?:(?<=;base64),(?P<uri>[A-Za-z0-9+/_-]{12,}={0,2})"
    r"|(?<=ncoding: base64)[ \t]*\r?\n(?:[^\r\n]{1,998}\r?\n){0,8}\r?\n"
    r"(?P<mail>(?:[A-Za-z0-9+/]{12,}\r?\n)*[A-Za-z0-9+/]{2,}={0,2}))"
)
"""A `data:` URI, and a part of a mail after its last headers."""
_BEFORE_JSON = ("{", "[", " ", "\n", "\r", "\t")
_LINE = re.compile(r"\r?\n")
_LONGEST_SNIFFED = 4_096
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class TextFile(NamedTuple):
    """A text as it was read from bytes."""

    text: str
    encoding: str
    is_lossless: bool
    """Whether writing it again gives the same bytes."""

    def bytes_of(self, text: str) -> bytes:
        """Another text in the encoding of this one."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "replace"
        return text.encode(self.encoding, errors)


def read_text(data: bytes) -> TextFile | None:
    """The text that a file is, in UTF-8, UTF-16, UTF-32 or CP1252; None if it is none. Few wrong bytes make no other
    file of it."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding)
    sniffed = data[:_LONGEST_SNIFFED]
    if b"\0" in sniffed and (wide := _wide_encoding(sniffed)):
        return _decoded(data, wide)
    controls = len(sniffed) - len(sniffed.translate(None, _CONTROLS))
    if controls * 20 > len(sniffed):
        return None
    if _is_mostly_utf8(sniffed):
        return TextFile(data.decode("utf-8", "surrogateescape"), "utf-8", is_lossless=True)
    return None if controls else _decoded(data, "cp1252") or _decoded(data, "latin-1")


def _is_mostly_utf8(data: bytes) -> bool:
    """Whether at most half of what is not ASCII is wrong; a letter may be cut off at the end."""
    if data.isascii():
        return True
    text = data.decode("utf-8", "surrogateescape")
    wrong = sum("\udc80" <= character <= "\udcff" for character in text[:-3])
    return wrong * 2 <= sum(character > "\x7f" for character in text)


def _decoded(data: bytes, encoding: str) -> TextFile | None:
    try:
        return TextFile(data.decode(encoding), encoding, is_lossless=True)
    except UnicodeDecodeError:
        if encoding == "cp1252":
            return None
        return TextFile(data.decode(encoding, "replace"), encoding, is_lossless=False)


def _wide_encoding(data: bytes) -> str:
    """UTF-16 or UTF-32 without a mark: letters of Latin have zeros at every second byte, or at three of four."""
    for width, name in ((4, "utf-32"), (2, "utf-16")):
        columns = [data[at::width] for at in range(width)]
        zeros = [column.count(0) / max(1, len(column)) for column in columns]
        if len(data) >= 2 * width:
            if zeros[0] < 0.1 and zeros[-1] > 0.6 and min(zeros[1:]) > 0.6:
                return f"{name}-le"
            if zeros[-1] < 0.1 and zeros[0] > 0.6 and min(zeros[:-1]) > 0.6:
                return f"{name}-be"
    return ""


def from_base64(text: str) -> bytes | None:
    """What base64 holds, in either alphabet and with line breaks; None if the text is no base64."""
    if not _BASE64.fullmatch(text):
        return None
    plain = text.replace("\n", "").replace("\r", "").rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None


def to_base64(data: bytes, like: str) -> str:
    """Base64 in the alphabet of another one, in lines of its length."""
    made = (base64.urlsafe_b64encode if "-" in like or "_" in like else base64.b64encode)(data).decode()
    if len(like.replace("\n", "").replace("\r", "")) % 4:
        made = made.rstrip("=")
    found = _LINE.search(like)
    if found is None:
        return made
    width, end = max(1, found.start()), found[0]
    lines = end.join(made[at : at + width] for at in range(0, len(made), width))
    return lines + (end if like.endswith("\n") else "")


class Wrapping(StrEnum):
    """What a text in a JSON value is written as. A step of a place: what is found is within what it holds."""

    JSON = "json"
    BASE64 = "base64"


def may_be_wrapped(text: str) -> bool:
    """Whether `unwrapped` may find something; most texts can't be either."""
    return text.startswith(_BEFORE_JSON) or (len(text) >= _MIN_BASE64_CHARACTERS and " " not in text)


def unwrapped(text: str) -> tuple[Wrapping, Any] | None:
    """What a text holds that is JSON or base64 of a text: a JSON value, or the text."""
    if text.startswith(_BEFORE_JSON):
        stripped = text.strip()
        if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]"):
            value = _json_of(stripped)
            return None if value is None else (Wrapping.JSON, value)
    elif len(text) >= _MIN_BASE64_CHARACTERS and (data := from_base64(text)) is not None:
        found = read_text(data)
        if found is not None and found.is_lossless and (found.encoding != "cp1252" or _is_latin(data)):
            return Wrapping.BASE64, found.text
    return None


class EncodedPart(NamedTuple):
    """Where a text has base64 of another text in it. A step of a place, as `Wrapping` is."""

    start: int
    end: int


def encoded_parts(text: str) -> Iterator[tuple[EncodedPart, str]]:
    """The parts of a text that it declares to be base64, as `data:` URIs and mail do, and the texts that they hold."""
    if _DECLARATION not in text:
        return
    for found in _DECLARED.finditer(text):
        held = unwrapped(found["uri"] or found["mail"])
        if held is not None and held[0] is Wrapping.BASE64:
            yield EncodedPart(*found.span(found.lastgroup or 0)), held[1]


def _is_latin(data: bytes) -> bool:
    """Whether bytes that are not UTF-8 are a text, and none by chance."""
    others = sum(byte > 127 for byte in data[:_LONGEST_SNIFFED])
    return len(data) >= _MIN_LATIN_BYTES and others <= _MAX_LATIN_SHARE * min(len(data), _LONGEST_SNIFFED)


def wrapped(wrapping: Wrapping, value: Any, like: str) -> str:
    """A value in place of the one that `unwrapped` found in `like`."""
    if wrapping is Wrapping.BASE64:
        data = from_base64(like)
        file = read_text(data) if data is not None else None
        return to_base64(file.bytes_of(value), like) if file is not None else like
    indent = re.search(r"\n([ \t]+)", like)
    separators = None if indent or '": ' in like else (",", ":")
    return json.dumps(value, ensure_ascii=like.isascii(), indent=indent[1] if indent else None, separators=separators)


def _json_of(text: str) -> Any:
    """A JSON value that can be written again; None if it can't, as where a key is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made
