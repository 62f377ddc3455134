"""Writes values as compact JSON in UTF-8, long texts in pieces.

A piece takes little time, in which no other thread could run. A text of all would be another copy of the value, with
one emoji at four bytes a character.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

from codemode_server.domain.ids import JsonValue

Surrogates = Literal["replace", "surrogatepass"]
"""What becomes of halves of characters: a question mark, or bytes that only `surrogatepass` reads."""
_PIECE_CHARACTERS = 2**20
"""Characters of a long text that are written at once."""
_BATCH = 1_000
"""Items that are written at once of a list or object with a long text."""
_MAX_LOOKED_AT = 10_000
"""Values of a list or object that are searched for a long text."""


def json_bytes(value: JsonValue, surrogates: Surrogates = "replace") -> bytes:
    """All of it, for values without long texts, or where a copy is needed."""
    return b"".join(json_pieces(value, surrogates))


def size_as_json(value: JsonValue) -> int:
    """How many bytes it has, without all of it at once."""
    return sum(map(len, json_pieces(value)))


def json_pieces(value: JsonValue, surrogates: Surrogates = "replace") -> Iterator[bytes]:
    """Pieces of it, in order."""
    if isinstance(value, str) and len(value) > _PIECE_CHARACTERS:
        yield b'"'
        for start in range(0, len(value), _PIECE_CHARACTERS):
            yield _encoded(value[start : start + _PIECE_CHARACTERS], surrogates)[1:-1]
        yield b'"'
    elif isinstance(value, dict | list) and holds_long_text(value):
        yield b"{" if isinstance(value, dict) else b"["
        items = iter(value.items() if isinstance(value, dict) else value)
        is_first = True
        while batch := list(islice(items, _BATCH)):
            for part in [[item] for item in batch] if holds_long_text([batch]) else [batch]:
                yield b"" if is_first else b","
                is_first = False
                yield from _members(part, surrogates, is_object=isinstance(value, dict))
        yield b"}" if isinstance(value, dict) else b"]"
    else:
        yield _encoded(value, surrogates)


def _members(part: list[Any], surrogates: Surrogates, *, is_object: bool) -> Iterator[bytes]:
    """Items of a list, or names and values of an object: one, which may hold a long text, or several without one."""
    if len(part) > 1:
        yield _encoded(dict(part) if is_object else part, surrogates)[1:-1]
    elif is_object:
        name, value = part[0]
        yield from json_pieces(name, surrogates)
        yield b":"
        yield from json_pieces(value, surrogates)
    else:
        yield from json_pieces(part[0], surrogates)


def _encoded(value: JsonValue, surrogates: Surrogates) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", surrogates)


def holds_long_text(value: JsonValue) -> bool:
    """Whether a list or object has a long text, as far as it is looked at."""
    waiting: list[Any] = [value]
    for _ in range(_MAX_LOOKED_AT):
        if not waiting:
            break
        item = waiting.pop()
        if isinstance(item, str):
            if len(item) > _PIECE_CHARACTERS:
                return True
        elif isinstance(item, dict):
            waiting += [*islice(item, _MAX_LOOKED_AT), *islice(item.values(), _MAX_LOOKED_AT)]
        elif isinstance(item, list | tuple):
            waiting += item[:_MAX_LOOKED_AT]
    return False
