"""Records which keys doubted by the preflight check occur in the actual results."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue

_MAX_VALUES = 200_000
"""Values of one result that are looked at; keys beyond them stay doubted."""


class ResultKey(NamedTuple):
    """A key of some dict in a tool's result."""

    server: str
    tool: str
    """Python names."""
    key: str


def keys_in(value: Any, wanted: Set[str]) -> set[str]:
    """Those of the wanted keys that any dict in a JSON value has."""
    found: set[str] = set()
    for inner in islice(values_in(value), _MAX_VALUES):
        if isinstance(inner, dict):
            found |= wanted & inner.keys()
        if len(found) >= len(wanted):
            break
    return found


def values_in(value: JsonValue) -> Iterator[JsonValue]:
    """A JSON value and all values within it."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        yield inner
        if isinstance(inner, dict):
            waiting += inner.values()
        elif isinstance(inner, list):
            waiting += inner
