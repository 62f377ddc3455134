"""JSON values and texts: size, depth and number of values, the texts in them, and halves of characters.

16 MB of `[]` are a short text and 500 MB of Python objects, so who parses text from others counts bytes and values
first. Counting is a few passes in C, about 1 ms per MB; it makes no object for each value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from codemode_server.domain.ids import JsonValue

MAX_VALUES = 500_000
"""Values and keys that one message may hold: at most 50 MB of objects, and 0.1 s of parsing."""
_COUNTED_AT_ONCE = 2**20
"""Bytes; between two such pieces other threads have their turn."""
_BATCH_CHARACTERS = 256 * 1024
_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""A backslash that is one, a whole character, or, as the group, half of one."""
Surrogates = Literal["replace", "surrogatepass"]
"""Encoding of lone surrogates: as a question mark, or as bytes that only `surrogatepass` reads."""


def json_bytes(value: JsonValue, surrogates: Surrogates = "replace") -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", surrogates)


def size_as_json(value: JsonValue) -> int:
    return len(json_bytes(value))


def is_nested_deeper(value: Any, most: int) -> bool:
    """True if a JSON value is nested more than `most` deep."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def values_in(value: JsonValue, *, with_keys: bool = False, most: float = math.inf) -> list[JsonValue]:
    """A JSON value and all values within it, in no order that means something; `most` and one more of them, if there
    are more than `most`."""
    values = [value]
    for inner in values:  # which grows meanwhile
        if len(values) > most:
            return values[: int(most) + 1]
        if isinstance(inner, dict):
            values += inner.values()
            if with_keys:
                values += inner
        elif isinstance(inner, list):
            values += inner
    return values


def texts_in(value: JsonValue) -> list[str]:
    return [item for item in values_in(value, with_keys=True) if isinstance(item, str)]


def with_texts_mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [with_texts_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(str(name)): with_texts_mapped(item, change) for name, item in value.items()}
    return value


def joined_texts(value: JsonValue) -> Iterator[str]:
    """The strings, keys and numbers of a value, many to a text, for searches of which each costs something."""
    texts, size, waiting = list[str](), 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
            waiting += item
        elif isinstance(item, list):
            waiting += item
        if type(item) not in (str, int, float):
            continue
        texts.append(str(item))
        size += len(texts[-1])
        if size > _BATCH_CHARACTERS:
            yield "\n".join(texts)
            texts, size = [], 0
    yield "\n".join(texts)


def holds_too_many_values(data: bytes | bytearray, most: int = MAX_VALUES) -> bool:
    """True if parsing `data`, JSON in UTF-8, would make more than `most` values and keys. Of text that is not JSON it
    counts at least what a parser makes before it meets the mistake."""
    if _separators(data) < most:
        return False  # even if none of them stood in a string
    # Without its escapes each quotation mark begins or ends a string: what stands outside are the even parts.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * most:
        return True
    return _separators(b"".join(plain.split(b'"')[::2])) >= most


def values_at_most(data: bytes) -> int:
    """Values and keys that `data` has at most: text within its strings may count too."""
    return _separators(data) + 1


def _separators(data: bytes | bytearray) -> int:
    """Number of separators: each key, and each value but the first, has one."""
    total = 0
    for start in range(0, len(data), _COUNTED_AT_ONCE):
        total += sum(map(data[start : start + _COUNTED_AT_ONCE].count, (b",", b":", b"[", b"{")))
    return total


def holds_surrogate_escapes(data: bytes | bytearray) -> bool:
    """True if JSON in UTF-8 may contain escapes of half characters (`\\ud800`), in pairs or alone."""
    return b"\\ud" in data or b"\\uD" in data


def replace_lone_surrogates(data: bytearray, replacement: str) -> None:
    """Put `replacement`, one character up to U+FFFF, in place of each escape of half a character of JSON in UTF-8.
    Done before the text is parsed: the values would be copied once more."""
    digits = b"%04x" % ord(replacement)
    for found in _ESCAPES.finditer(data):
        if found[1] is not None:
            data[found.start(1) : found.end(1)] = digits


def read_json(data: bytes) -> Any:
    """JSON in UTF-8 as a value. pydantic reads bytes without a text of them all, which one emoji makes four times as
    long. Raises `ValueError` if it is no JSON, or no UTF-8."""
    from pydantic_core import from_json

    try:
        return from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        if not holds_surrogate_escapes(data):
            raise
    clean = bytearray(data)
    replace_lone_surrogates(clean, "?")  # halves of characters could be written nowhere later
    return from_json(clean, allow_inf_nan=False, cache_strings="keys")
