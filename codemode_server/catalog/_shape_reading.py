"""Reads the shape of one JSON value in bounded time.

Only some items of a long list are read, always the same ones. Values deeper than `DEEPEST`, or beyond the budget of one
value, are counted but not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from codemode_server.catalog._shape import MAX_KEYS, MAX_WORDS, Shape, as_map, merge, with_keys_as_data
from codemode_server.domain.ids import JsonValue
from codemode_server.field_names import is_field_name, is_label

LONGEST_WORD = 40
DEEPEST = 12
_STEPS = 4_000
"""Maximum number of values of one result that are read."""
_SAMPLES = (60, 24, 10, 5)
"""Maximum number of items that are read, by the nesting depth of the list."""
_MAP_SAMPLES = 40


def of(value: JsonValue, *, keep_words: bool = False) -> Shape:
    """The shape of one JSON value; includes its short strings only with `keep_words`."""
    shape = Shape()
    reading = _Reading(keep_words)
    reading.add(shape, value, 0, 0)
    return _without_doubtful_labels(shape) if reading.has_labels else shape


def of_reply(value: JsonValue, encoding: str, *, keep_words: bool = False) -> Shape:
    """The shape of a reply as programs receive it: the content of a single block, or a list of contents."""
    if encoding != "blocks" or not isinstance(value, list):
        return of(value, keep_words=keep_words)
    found = [_of_block(block, keep_words) for block in _sampled(value, _SAMPLES[0])]
    if len(found) == 1:
        return found[0]
    items = None
    for one in found:
        items = merge(items, one) if items else one
    return Shape(lists=1, items=items)


class _Reading:
    """Reads one value within a budget."""

    def __init__(self, keep_words: bool) -> None:
        self._keep_words = keep_words
        self._left = _STEPS
        self._names: set[str] = set()
        """Keys of this value already recognized as field names or labels, so that each is checked once."""
        self.has_labels = False

    def add(self, shape: Shape, value: JsonValue, depth: int, lists: int, reserve: int = 0) -> None:
        """Adds a value to a shape; leaves `reserve` of the budget for the values after it."""
        self._left -= 1
        if value is None:
            shape.nulls += 1
        elif isinstance(value, str):
            shape.strs += 1
            self._add_word(shape, value)
        elif isinstance(value, bool):
            shape.bools += 1
        elif isinstance(value, int):
            shape.ints += 1
        elif isinstance(value, float):
            shape.floats += 1
        elif depth >= DEEPEST or self._left <= reserve or not isinstance(value, list | dict):
            shape.unread += 1
        elif isinstance(value, list):
            shape.lists += 1
            self._add_items(shape, value, depth, lists, reserve)
        else:
            shape.dicts += 1
            self._add_keys(shape, value, depth, lists, reserve)

    def _add_items(self, shape: Shape, value: list[Any], depth: int, lists: int, reserve: int) -> None:
        if not value:
            return
        shape.items = shape.items or Shape()
        sample = _sampled(value, _SAMPLES[min(lists, len(_SAMPLES) - 1)])
        for after, item in zip(range(len(sample) - 1, -1, -1), sample, strict=True):
            self.add(shape.items, item, depth + 1, lists + 1, self._reserve(reserve, after))

    def _add_keys(self, shape: Shape, value: dict[str, Any], depth: int, lists: int, reserve: int) -> None:
        names = self._names_of(value)
        if len(value) > len(names) * 4 // 3 or shape.is_map:
            _make_map(shape)
            names = set()
        after = len(value) if names else min(len(value), 2 * _MAP_SAMPLES)
        # First and last entries of a map: sampling all over it would take unbounded time.
        looked_at = value.items() if names else _ends(value)
        for key, item in looked_at:
            after -= 1
            if key in names:
                inner = shape.keys.get(key)
                if inner is None:
                    inner = shape.keys[key] = Shape()
            else:
                inner = shape.others = shape.others or Shape()
            self.add(inner, item, depth + 1, lists, self._reserve(reserve, after))
        if len(shape.keys) > MAX_KEYS:
            _make_map(shape)

    def _names_of(self, value: dict[str, Any]) -> set[str]:
        if len(value) > MAX_KEYS:
            return set()
        known = value.keys() & self._names
        strange = value.keys() - known
        fresh = set(filter(is_field_name, strange))
        if labels := set(filter(is_label, strange - fresh)):
            self.has_labels = True
            fresh |= labels
        self._names |= fresh
        return known | fresh

    def _reserve(self, reserve: int, after: int) -> int:
        """The budget to leave for the siblings after a value: an equal share each."""
        return reserve + max(0, self._left - reserve) * after // (after + 1)

    def _add_word(self, shape: Shape, text: str) -> None:
        words = shape.words
        if words is None:
            return
        if self._keep_words and len(text) <= LONGEST_WORD and text.isprintable():
            words[text] = words.get(text, 0) + 1
            if len(words) <= MAX_WORDS:
                return
        shape.words = None


def _of_block(block: Any, keep_words: bool) -> Shape:
    match block:
        case {"type": "file"}:
            return Shape(files=1)
        case {"type": "text", "text": str(text)}:
            return of(text)
        case {"type": "json", "value": value}:
            return of(value, keep_words=keep_words)
        case _:
            return Shape(unread=1)


def _sampled(items: list[Any], most: int) -> list[Any]:
    """All items of a short list; of a longer one the first, the last, and an even sample."""
    if len(items) <= most:
        return items
    edge = most // 3
    middle = len(items) - 2 * edge
    spread = most - 2 * edge
    return [*items[:edge], *(items[edge + middle * step // spread] for step in range(spread)), *items[-edge:]]


def _ends(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from islice(value.items(), _MAP_SAMPLES)
    yield from islice(reversed(value.items()), max(0, min(_MAP_SAMPLES, len(value) - _MAP_SAMPLES)))


def _make_map(shape: Shape) -> None:
    folded = as_map(shape)
    shape.keys, shape.others, shape.is_map = folded.keys, folded.others, True


def _without_doubtful_labels(shape: Shape) -> Shape:
    """A copy without labels that may not be table headings: those that a row lacks, or with few rows."""
    doubtful = [key for key in shape.keys if not is_field_name(key) and (shape.dicts < 3 or not shape.is_required(key))]
    shape = with_keys_as_data(shape, doubtful)
    return replace(
        shape,
        items=_without_doubtful_labels(shape.items) if shape.items else None,
        keys={key: _without_doubtful_labels(inner) for key, inner in shape.keys.items()},
        others=_without_doubtful_labels(shape.others) if shape.others else None,
    )
