"""Characters beyond U+FFFF in JSON text, and halves of them: `\\ud800` without its other half, which no UTF-8 can hold.

Replaced before the text is parsed: the values would be copied once more, at four bytes a character of a text with an
emoji in it.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A backslash that is one, a whole character, or, as the group, half of one."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")


def has_wide_characters(data: bytes | bytearray) -> bool:
    """Whether JSON in UTF-8 has characters beyond U+FFFF. One makes Python hold all of its text at four bytes each."""
    return _WIDE.search(data) is not None


def holds_surrogate_escapes(data: bytes | bytearray) -> bool:
    """Whether JSON in UTF-8 may have characters, or halves of them, as surrogate escapes."""
    return b"\\ud" in data or b"\\uD" in data


def replace_lone_surrogates(data: bytearray, replacement: str) -> None:
    """Put `replacement`, one character up to U+FFFF, in place of each escape of half a character of JSON in UTF-8."""
    digits = b"%04x" % ord(replacement)
    for found in _ESCAPES.finditer(data):
        if found[1] is not None:
            data[found.start(1) : found.end(1)] = digits
