"""Reads texts that are JSON or base64 of UTF-8, or that have escapes of URLs and HTML, and writes them again, with
tokens in place of findings. Pure."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import unquote

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN_IN_ANY_CASE, label_of
from codemode_server.features.privacy.findings import Finding, Findings
from codemode_server.support.json_values import texts_in
from codemode_server.support.known_values import DistinctKeys, Span, merged, with_spans_replaced

_JSON_BEGINS = ("{", "[", " ", "\n", "\r", "\t")
_MIN_BASE64_CHARACTERS = 12
_MIN_FILE_CHARACTERS = 1_000
"""Base64 that is so long and no text is a binary file, and not searched; a shorter one may be a credential."""
_MIN_LINE_CHARACTERS = 60
"""Of base64 in lines; shorter ones may be a list of numbers."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_\r\n-]+={0,2}[\r\n]*")
_MIN_PER_CONTROL = 20
"""Characters of a text for each control character in it: an old file ends with one, and HL7 begins with one."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x7f]")
_ESCAPE = re.compile(
    r"(?:%[89A-Fa-f][0-9A-Fa-f])+|%[0-7][0-9A-Fa-f]|&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,20});"
)


class Wrapping(StrEnum):
    """The syntax of a text in a JSON value. A step of a place: the finding is in the value that the text holds."""

    JSON = "json"
    BASE64 = "base64"


def unwrapped(text: str) -> tuple[Wrapping, Any] | None:
    """The value of a text that is JSON, or the text that one in base64 holds: None if that is a binary file."""
    if not text.startswith(_JSON_BEGINS):
        return _in_base64(text)
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and stripped[-1:] in ("}", "]"):
        try:
            return Wrapping.JSON, json.loads(stripped, object_pairs_hook=_object)
        except (ValueError, RecursionError):
            return None
    return None


def _in_base64(text: str) -> tuple[Wrapping, str | None] | None:
    if len(text) < _MIN_BASE64_CHARACTERS or " " in text or (data := from_base64(text)) is None:
        return None
    file = text_of_file(data)
    if file is not None and len(_CONTROLS.findall(file.text)) * _MIN_PER_CONTROL <= len(file.text):
        return Wrapping.BASE64, file.text
    is_file = len(text) >= _MIN_FILE_CHARACTERS and len(text.partition("\n")[0]) >= _MIN_LINE_CHARACTERS
    return (Wrapping.BASE64, None) if is_file else None


def with_held_texts(spans_of: Callable[[str], list[Span]]) -> Callable[[str], list[Span]]:
    """The spans of a text; of one in base64 without any, the whole with those replaced in the text that it holds."""

    def spans(text: str) -> list[Span]:
        found = spans_of(text)
        if found or text.startswith(_JSON_BEGINS) or (held := _in_base64(text)) is None or held[1] is None:
            return found
        inner = spans_of(held[1])
        return [(0, len(text), wrapped(held[0], with_spans_replaced(held[1], inner), text))] if inner else []

    return spans


def wrapped(wrapping: Wrapping, value: Any, like: str) -> str:
    """A value in place of the one that `unwrapped` found in `like`."""
    if wrapping is Wrapping.BASE64:
        file = text_of_file(from_base64(like) or b"") or TextFile("", "utf-8")
        return _to_base64(file.bytes_of(str(value)), like)
    indent = re.search(r"\n([ \t]+)", like)
    separators = None if indent or '": ' in like else (",", ":")
    return json.dumps(value, ensure_ascii=like.isascii(), indent=indent[1] if indent else None, separators=separators)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made


class TextFile(NamedTuple):
    """A text as it was read from bytes."""

    text: str
    encoding: str

    def bytes_of(self, text: str) -> bytes:
        """Another text in the encoding of this one."""
        return text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "replace")


def text_of_file(data: bytes) -> TextFile | None:
    """The text of a file in UTF-8, in UTF-16 with a mark of its byte order, or in an encoding of one byte for each
    letter, which is read as Latin-1; None if it is binary. Few wrong bytes make no other file of one in UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
        try:
            return TextFile(data.decode(encoding), encoding)
        except UnicodeDecodeError:
            return None
    if b"\0" in data:
        return None
    text = data.decode("utf-8", "surrogateescape")
    wrong = 0 if data.isascii() else sum("\udc80" <= it <= "\udcff" for it in text)
    is_utf8 = not wrong or 2 * wrong <= sum(it > "\x7f" for it in text)
    return TextFile(text, "utf-8") if is_utf8 else TextFile(data.decode("latin-1"), "latin-1")


def from_base64(text: str) -> bytes | None:
    """The data of base64, in either alphabet and with line breaks; None if the text is no base64."""
    if not _BASE64.fullmatch(text):
        return None
    plain = text.replace("\n", "").replace("\r", "").rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return None


def _to_base64(data: bytes, like: str) -> str:
    """Base64 in the alphabet of another one, in one line."""
    return (base64.urlsafe_b64encode if "-" in like or "_" in like else base64.b64encode)(data).decode()


Shifts = Sequence[tuple[int, int]]
"""Places in a text without escapes, in order, each with its place in the text that has them."""


def without_escapes(text: str) -> tuple[str, Shifts]:
    """A text with the characters that escapes of URLs and HTML stand for, each escape undone once."""
    pieces, shifts, place, length = list[str](), list[tuple[int, int]](), 0, 0
    for found in _ESCAPE.finditer(text):
        meant = unquote(found[0]) if found[0][0] == "%" else html.unescape(found[0])
        if meant == found[0] or "\ufffd" in meant:
            continue
        pieces += [text[place : found.start()], meant]
        length += found.start() - place
        shifts += [(length, found.start()), (length + len(meant), found.end())]
        length += len(meant)
        place = found.end()
    return ("".join((*pieces, text[place:])), shifts) if shifts else (text, [])


TokensOf = Mapping[tuple[str, str], str]
"""Kind and value of a finding → its token."""
_HERE = object()
"""In a tree of findings: those of the value itself, not of what is in it."""


def replaced(value: JsonValue, found: Sequence[Finding], tokens: TokensOf) -> JsonValue:
    """The value with tokens in place of the findings; the rest of it is shared with the given one."""
    tree: dict[Any, Any] = {}
    for one in found:
        node = tree
        for step in one.place[:-1] if one.is_key else one.place:
            node = node.setdefault(step, {})
        node.setdefault(_HERE, []).append(one)
    return _replaced(value, tree, tokens)


def _replaced(value: Any, tree: dict[Any, Any], tokens: TokensOf) -> Any:
    here = tree.get(_HERE, ())
    if isinstance(value, dict) and (whole := next((one for one in here if not one.is_key), None)):
        return tokens[whole.kind, whole.value]  # a date in parts
    if isinstance(value, dict):
        keys: dict[Any, list[Finding]] = {}
        for one in here:
            keys.setdefault(one.place[-1], []).append(one)
        if not keys and tree.keys().isdisjoint(value):
            return value
        made: dict[str, Any] = {}
        distinct = DistinctKeys(value)
        for key, item in value.items():
            shown = distinct.named(key, _text(key, keys[key], tokens)) if key in keys else key
            made[shown] = _replaced(item, tree[key], tokens) if key in tree else item
        return made
    if isinstance(value, list):
        return [_replaced(item, tree[at], tokens) if at in tree else item for at, item in enumerate(value)]
    if isinstance(value, str):
        is_whole = any(one.end - one.start == len(value) for one in here)
        for wrapping in Wrapping:
            if wrapping in tree and not is_whole and (held := unwrapped(value)):
                return wrapped(wrapping, _replaced(held[1], tree[wrapping], tokens), value)
        return _text(value, here, tokens)
    return tokens[here[0].kind, here[0].value] if here else value


def _text(text: str, found: Sequence[Finding], tokens: TokensOf) -> str:
    spans = sorted((one.start, one.end, tokens[one.kind, one.value]) for one in found)
    return with_spans_replaced(text, merged(spans)) if spans else text


def with_kinds(value: JsonValue, findings: Findings) -> JsonValue:
    """The value with the kind in place of each finding, `<EMAIL>`; the same object if there is none."""
    labels = {(it.kind, it.value): f"<{label_of(it.kind)}>" for it in findings.found}
    return replaced(value, findings.found, labels) if labels else value


def tokens_in(value: JsonValue) -> set[str]:
    """The texts in the form of a token in the texts and keys of a value, as they are written, in any letter case."""
    return {found[0] for text in texts_in(value) if "<" in text for found in TOKEN_IN_ANY_CASE.finditer(text)}
