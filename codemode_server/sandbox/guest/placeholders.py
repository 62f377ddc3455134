"""Placeholder of a dry run for a result of unknown type: a text that can also be indexed like a dict or a list.

Indexing it gives another placeholder that names the same call: `<number of github.create_issue #1>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_MAX_KEY = 60


class Unknown(str):
    """A placeholder such as `<result of github.create_issue #1>`."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return str.__getitem__(self, key)
        return Unknown(f"<{str(key)[:_MAX_KEY]} of {self.rpartition(' of ')[2]}")

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def items(self) -> list[Any]:
        return [(self["key"], self["value"])]

    def __iter__(self) -> Iterator[Any]:
        yield self[0]

    def __format__(self, spec: str) -> str:
        try:
            return str.__format__(self, spec)
        except ValueError:  # the program formats it as a number
            return str(self)


def from_block(block: dict[str, Any]) -> Any:
    """The value of a block of the host, in which the texts of `unknown` stand for values of unknown type."""
    unknown = frozenset(block["unknown"])

    def value_of(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: value_of(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [value_of(item) for item in value]
        return Unknown(value) if isinstance(value, str) and value in unknown else value

    return value_of(block["value"])
