"""Detects and replaces lone surrogate escapes (`\\ud800` without its other half) in JSON before it is parsed.

Replaced before the text is parsed: the values would be copied once more, at four bytes a character of a text with an
emoji in it.
"""

from __future__ import annotations

import re
from typing import Any

_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A backslash that is one, a whole character, or, as the group, half of one."""


def holds_surrogate_escapes(data: bytes | bytearray) -> bool:
    """True if JSON in UTF-8 may contain surrogate escapes, in pairs or alone."""
    return b"\\ud" in data or b"\\uD" in data


def replace_lone_surrogates(data: bytearray, replacement: str) -> None:
    """Put `replacement`, one character up to U+FFFF, in place of each escape of half a character of JSON in UTF-8."""
    digits = b"%04x" % ord(replacement)
    for found in _ESCAPES.finditer(data):
        if found[1] is not None:
            data[found.start(1) : found.end(1)] = digits


def read_json(data: bytes) -> Any:
    """JSON in UTF-8 as a value. pydantic reads bytes without a text of them all, which one emoji makes four times as
    long.

    Raises:
        ValueError: it is no JSON, or no UTF-8.
    """
    from pydantic_core import from_json

    try:
        return from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        if not holds_surrogate_escapes(data):
            raise
    # Halves of characters could be written nowhere later.
    clean = bytearray(data)
    replace_lone_surrogates(clean, "?")
    return from_json(clean, allow_inf_nan=False, cache_strings="keys")
