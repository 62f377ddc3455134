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
    """The strings, keys and numbers of a value as texts, for searches of which each costs something. Items of a list
    and values of an object are in their order: a text may be spread over them."""
    batch: list[str] = []
    size, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += reversed(item.values())
            waiting += item
        elif isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, str) and len(item) > BATCH_CHARACTERS:
            yield [item]
        elif not isinstance(item, bool | None):
            batch.append(str(item))
            size += len(batch[-1]) + 1
            if size > BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
    yield batch
