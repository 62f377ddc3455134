"""Iterates over the texts in a JSON value, alone or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from codemode_server.domain.ids import JsonValue

BATCH_CHARACTERS = 256 * 1024
"""A batch with more characters is complete, and a longer text is a batch of its own."""


def texts_in(value: JsonValue) -> Iterator[str]:
    """Every string in a value, keys among them, in no order that means something."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def text_batches(value: JsonValue) -> Iterator[list[str]]:
    """The strings, keys and numbers of a value as texts, for searches of which each costs something.

    Items and values are in their order and keys in batches of their own, since a text may be spread over many items.
    """
    values, keys = _Batch(), _Batch()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += reversed(item.values())
            for key in item:
                if keys.add(key):
                    yield keys.take()
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, str) and len(item) > BATCH_CHARACTERS:
            yield [item]
        elif not isinstance(item, bool | None) and values.add(str(item)):
            yield values.take()
    yield keys.take()
    yield values.take()


class _Batch:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._size = 0

    def add(self, text: str) -> bool:
        """Whether the batch is complete now."""
        self._texts.append(text)
        self._size += len(text) + 1
        return self._size > BATCH_CHARACTERS

    def take(self) -> list[str]:
        taken, self._texts, self._size = self._texts, [], 0
        return taken
