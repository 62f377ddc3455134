"""Halves of characters in JSON text: `\\ud800` without its other half, which no UTF-8 can hold.

Replaced before the text is parsed: the values would be copied once more, at four bytes a character of a text with an
emoji in it.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A backslash that is one, a whole character, or, as the group, half of one."""


def holds_surrogate_escapes(data: bytes | bytearray) -> bool:
    """Whether JSON in UTF-8 may have characters, or halves of them, as surrogate escapes."""
    return b"\\ud" in data or b"\\uD" in data


def without_lone_surrogates(data: bytes | bytearray, replacement: str) -> bytearray:
    """JSON in UTF-8 with `replacement`, one character up to U+FFFF, for each escape of half a character."""
    clean, digits = bytearray(data), b"%04x" % ord(replacement)
    for found in _ESCAPES.finditer(data):
        if found[1] is not None:
            clean[found.start(1) : found.end(1)] = digits
    return clean
