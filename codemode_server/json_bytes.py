"""Writes values as compact JSON in UTF-8."""

from __future__ import annotations

import json
from typing import Literal

from codemode_server.domain.ids import JsonValue

Surrogates = Literal["replace", "surrogatepass"]
"""Encoding of lone surrogates: as a question mark, or as bytes that only `surrogatepass` reads."""


def json_bytes(value: JsonValue, surrogates: Surrogates = "replace") -> bytes:
    """The value as JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", surrogates)


def size_as_json(value: JsonValue) -> int:
    """Number of bytes of the value as JSON."""
    return len(json_bytes(value))
