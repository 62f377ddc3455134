"""Which keys a result has, of those that the check before the run doubted."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

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
    waiting, looked_at = [value], 0
    while waiting and looked_at < _MAX_VALUES and len(found) < len(wanted):
        looked_at += 1
        match waiting.pop():
            case dict() as record:
                found |= wanted & record.keys()
                waiting += record.values()
            case list() as items:
                waiting += items
    return found
