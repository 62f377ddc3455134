"""Iterates over the texts in a JSON value, alone or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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


class TextBatch(NamedTuple):
    """Some strings, keys and numbers of a value as texts."""

    texts: list[str]
    first: int
    """The number of the first text among the keys, or among the others."""
    are_keys: bool


def text_batches(value: JsonValue) -> Iterator[TextBatch]:
    """The strings, keys and numbers of a value as texts, for searches of which each costs something.

    Items and values are in their order and keys in batches of their own, since a text may be spread over many items.
    Objects come before what is in them, and all keys of one in a row.
    """
    values, keys = _Batch(are_keys=False), _Batch(are_keys=True)
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
            yield values.take()
            values.add(item)
            yield values.take()
        elif not isinstance(item, bool | None) and values.add(str(item)):
            yield values.take()
    yield keys.take()
    yield values.take()


class _Batch:
    def __init__(self, *, are_keys: bool) -> None:
        self._are_keys = are_keys
        self._texts: list[str] = []
        self._first = self._size = 0

    def add(self, text: str) -> bool:
        """Adds a text; True if the batch is complete now."""
        self._texts.append(text)
        self._size += len(text) + 1
        return self._size > BATCH_CHARACTERS

    def take(self) -> TextBatch:
        taken = TextBatch(self._texts, self._first, self._are_keys)
        self._first += len(self._texts)
        self._texts, self._size = [], 0
        return taken
