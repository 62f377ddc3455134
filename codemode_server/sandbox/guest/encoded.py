"""Base64 that tools returned within a value. The program has it unchanged; the model is shown a summary.

A string is recognized by its first characters, also where it stands in JSON, in a `repr`, or cut short. So it does not
matter how the program writes a value out, and no other text is touched.
"""

from __future__ import annotations

import base64
import re
from typing import Any, ClassVar

MIN_CHARACTERS = 200
"""Shorter strings are shown as they are: they cost the model no more than their summary would."""
_HEAD = 12
_KNOWN_BY = 56
"""Characters at the start by which a base64 string is recognised."""
_MAX_KNOWN = 10_000
_BASE64 = "A-Za-z0-9+/_-"
DATA_URI_START = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,\r\n]{0,80})*;base64,")
"""The part of a `data:` URI before its base64; the host recognizes them by it as well."""
_DATA_URI = re.compile(rf"{DATA_URI_START.pattern}(?P<data>[{_BASE64}]+={{0,2}})")


class _Known:
    files: ClassVar[dict[str, tuple[str, str | None, str | None]]] = {}
    """Summary, media type and name, by the first characters of the base64."""
    pattern: tuple[int, re.Pattern[str]] | None = None
    """The number of files that it is made from, and what finds them in a text."""
    is_used = False
    """True if a summary was shown in place of bytes."""


def remember(text: str, mime_type: str | None, name: str | None, place: str = "") -> None:
    """Remember a base64 string, or `data:` URI, that a tool gave; `place` is where the result has the file."""
    text = _base64_of(text)
    if len(text) < MIN_CHARACTERS or len(_Known.files) >= _MAX_KNOWN:
        return
    _Known.files[text[:_KNOWN_BY]] = _summary(text, mime_type, name, place), mime_type, name


def remember_raw(result: Any) -> None:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return
    for block in content:
        inner = block.get("resource", block) if isinstance(block, dict) else None
        if isinstance(inner, dict):
            for data in (inner.get("data"), inner.get("blob")):
                if isinstance(data, str):
                    remember(data, inner.get("mimeType"), None)


def without_bytes(text: str) -> str:
    """`text` with a summary in place of each base64 string that a tool gave, and of each `data:` URI."""
    if len(text) < MIN_CHARACTERS:
        return text
    if ";base64," in text:
        text = _DATA_URI.sub(_of_data_uri, text)
    if _Known.files:
        text = _pattern().sub(_of_known, text)
    return text


def is_used() -> bool:
    """True if a summary has stood in place of bytes."""
    return _Known.is_used


def decoded(text: str) -> bytes:
    """The bytes of a base64 string in either alphabet, or of a `data:` URI."""
    plain = "".join(_base64_of(text).split()).replace("-", "+").replace("_", "/")
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def file_in(text: str) -> tuple[bytes, str | None, str | None] | None:
    """Bytes, media type and name, if a text is a `data:` URI or base64 that a tool gave."""
    if (uri := _DATA_URI.fullmatch(text)) is not None:
        return decoded(text), uri["type"], None
    known = _Known.files.get(text[:_KNOWN_BY])
    return (decoded(text), *known[1:]) if known is not None else None


def _base64_of(text: str) -> str:
    """A base64 string, or a `data:` URI without what comes before its base64."""
    return text[text.index(",") + 1 :] if text.startswith("data:") and "," in text[:400] else text


def _pattern() -> re.Pattern[str]:
    made = _Known.pattern
    if made is None or made[0] != len(_Known.files):
        starts = list(_Known.files)  # another thread may add to them meanwhile
        heads = "|".join(sorted({re.escape(start[:_HEAD]) for start in starts}))
        # Line breaks, also as `repr` and JSON write them, belong to it between full lines and before a last one.
        line, end = rf"[{_BASE64}]", r"(?:\\[rn]|[\r\n])+"
        last = rf"(?:{end}{line}{{1,76}}={{0,2}}(?:{end})?(?=[\"']|\Z))?"
        pattern = re.compile(rf"(?:{heads})(?:{line}|{end}(?={line}{{56}}))*={{0,2}}{last}")
        _Known.pattern = made = len(starts), pattern
    return made[1]


def _of_known(found: re.Match[str]) -> str:
    text = found[0]
    known = _Known.files.get(text[:_KNOWN_BY]) if len(text) >= MIN_CHARACTERS else None
    if known is None:
        return text
    _Known.is_used = True
    return known[0]


def _of_data_uri(found: re.Match[str]) -> str:
    if len(found["data"]) < MIN_CHARACTERS:
        return found[0]
    _Known.is_used = True
    known = _Known.files.get(found["data"][:_KNOWN_BY])
    return known[0] if known else _summary(found["data"], found["type"], None, "")


def _summary(text: str, mime_type: str | None, name: str | None, place: str) -> str:
    size = (len(text) - text.count("\n") - text.count("\r") - text[-2:].count("=")) * 3 // 4
    what = f"{name}, {mime_type}" if name and mime_type else name or mime_type or "unknown type"
    return f"({size:,} bytes, {what}{f': {place}' if place else ''})"
