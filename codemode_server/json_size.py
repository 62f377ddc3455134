"""Counts the values of a JSON text before it is parsed.

16 MB of `[]` are a short text and 500 MB of Python objects, so who parses text from others counts bytes and values
first. Counting is a few passes in C, about 1 ms per MB; it makes no object for each value.
"""

from __future__ import annotations

MAX_VALUES = 500_000
"""Values and keys that one message may hold: at most 50 MB of objects, and 0.1 s of parsing."""
_COUNTED_AT_ONCE = 2**20
"""Bytes; between two such pieces other threads have their turn."""


def holds_too_many_values(data: bytes | bytearray, most: int = MAX_VALUES) -> bool:
    """True if parsing `data`, JSON in UTF-8, would make more than `most` values and keys.

    Of text that is not JSON it counts at least what a parser makes before it meets the mistake.
    """
    if _separators(data) < most:
        return False  # even if none of them stood in a string
    # Without its escapes each quotation mark begins or ends a string: what stands outside are the even parts.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * most:
        return True
    outside = plain.split(b'"')[::2]
    return _separators(b"".join(outside)) >= most


def values_at_most(data: bytes) -> int:
    """Values and keys that `data` has at most: text within its strings may count too."""
    return _separators(data) + 1


def _separators(data: bytes | bytearray) -> int:
    """Number of separators: each key, and each value but the first, has one."""
    total = 0
    for start in range(0, len(data), _COUNTED_AT_ONCE):
        total += sum(map(data[start : start + _COUNTED_AT_ONCE].count, (b",", b":", b"[", b"{")))
    return total
