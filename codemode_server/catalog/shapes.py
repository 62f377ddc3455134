"""Shapes of JSON values: kinds, field names and how often each occurred; never a value.

A shape is read from one value (`of`), merged with others in any order (`merge`) and reduced (`settled`). Keys count as
data if they do not look like field names, are very many, or vary from dict to dict; the dict is then a map and its keys
are not stored. Column headings (`Order ID`), which look like names of people, are stored if several rows have all of
them.

Work and size are bounded: only some items of a long list are read, always the same ones. Values deeper than `DEEPEST`,
or beyond the budget of one value, are counted but not read. Shapes are immutable once returned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from codemode_server.catalog._shape import MAX_KEYS, MAX_WORDS, Shape, as_map, merge
from codemode_server.catalog._shape_reading import DEEPEST, LONGEST_WORD, of, of_reply
from codemode_server.catalog._varying_keys import (
    Path,
    places_that_differ,
    without_asked_for,
    without_keys,
)

__all__ = [
    "MAX_NODES",
    "Path",
    "Shape",
    "from_json",
    "merge",
    "of",
    "of_reply",
    "outline",
    "places_that_differ",
    "settled",
    "to_json",
    "without_asked_for",
    "without_keys",
    "without_words",
]

MAX_NODES = 800
"""Maximum number of nodes of a settled shape; the deepest are dropped first."""


def settled(shape: Shape, max_nodes: int = MAX_NODES) -> Shape:
    """A merged shape as stored and shown: dicts whose keys are data become maps, and at most `max_nodes` nodes
    remain."""
    shape = _with_maps(shape)
    levels = _nodes_by_depth(shape)
    places = 0
    for depth, count in enumerate(levels):
        places += count
        if places > max_nodes and depth:
            return _cut(shape, depth - 1)
    return shape


def without_words(shape: Shape) -> Shape:
    """A copy without any string of the values."""
    return replace(
        shape,
        items=without_words(shape.items) if shape.items else None,
        keys={key: without_words(inner) for key, inner in shape.keys.items()},
        others=without_words(shape.others) if shape.others else None,
        words=None if shape.strs else {},
    )


def outline(shape: Shape) -> tuple[object, ...]:
    """The parts of a shape that its type shows, without counts and order, for comparison."""
    return (
        shape.kinds,
        bool(shape.nulls),
        bool(shape.unread),
        shape.is_map,
        shape.keys_vary,
        shape.has_open_keys,
        shape.closed_words,
        outline(shape.items) if shape.items else None,
        outline(shape.others) if shape.others else None,
        frozenset((key, shape.is_required(key), outline(inner)) for key, inner in shape.keys.items()),
    )


def to_json(shape: Shape) -> dict[str, Any]:
    """A shape as plain data, without zeros and empty parts."""
    data: dict[str, Any] = {short: count for name, short in _COUNTS.items() if (count := getattr(shape, name))}
    if shape.is_map:
        data["m"] = 1
    if shape.keys_vary:
        data["v"] = 1
    if shape.items:
        data["I"] = to_json(shape.items)
    if shape.others:
        data["o"] = to_json(shape.others)
    if shape.keys:
        data["k"] = {key: to_json(inner) for key, inner in shape.keys.items()}
    if shape.strs and shape.words is not None:
        data["w"] = shape.words
    return data


def from_json(data: object, depth: int = 0) -> Shape:
    """Reads the output of `to_json`.

    Raises:
        ValueError: the data is not a shape.
    """
    if not isinstance(data, dict) or depth > 2 * DEEPEST:
        raise ValueError("no shape")
    counts = {name: _count_in(data, short) for name, short in _COUNTS.items()}
    keys = data.get("k", {})
    if not isinstance(keys, dict) or len(keys) > MAX_KEYS:
        raise ValueError("no keys of a shape")
    return Shape(
        **counts,
        items=from_json(data["I"], depth + 1) if "I" in data else None,
        keys={key: from_json(inner, depth + 1) for key, inner in keys.items()},
        others=from_json(data["o"], depth + 1) if "o" in data else None,
        is_map=data.get("m") == 1,
        keys_vary=data.get("v") == 1,
        words=_words_in(data) if counts["strs"] else {},
    )


_COUNTS = {
    "nulls": "z",
    "bools": "b",
    "ints": "i",
    "floats": "f",
    "strs": "s",
    "files": "F",
    "unread": "u",
    "lists": "l",
    "dicts": "d",
}


def _with_maps(shape: Shape) -> Shape:
    if shape.items is None and shape.others is None and not shape.keys:
        return shape
    if _has_varying_keys(shape):
        shape = as_map(shape)
    return replace(
        shape,
        items=_with_maps(shape.items) if shape.items else None,
        keys={key: _with_maps(inner) for key, inner in shape.keys.items()},
        others=_with_maps(shape.others) if shape.others else None,
    )


def _has_varying_keys(shape: Shape) -> bool:
    """True if keys that look like field names are data nevertheless: all values have the same kind, and either no key
    is in most of the dicts, or there are many whose values are dicts with the same fields."""
    inner = list(shape.keys.values())
    kinds = {"number" if kind in ("int", "float") else kind for one in inner for kind in one.kinds}
    if len(inner) < 4 or len(kinds) > 1:
        return False
    fields = [set(one.keys) for one in inner if one.keys]
    every = set().union(*fields)
    are_alike = not fields or sum(map(len, fields)) >= 0.6 * len(every) * len(fields)
    if shape.dicts >= 3 and are_alike and 2 * max(one.total for one in inner) <= shape.dicts:
        return True
    return len(inner) >= 8 and len(fields) == len(inner) and len(every) >= 2 and are_alike


def _nodes_by_depth(shape: Shape) -> list[int]:
    """The number of nodes at each depth."""
    level, counts = [shape], []
    while level:
        counts.append(len(level))
        level = [
            inner for outer in level for inner in (*outer.keys.values(), outer.items, outer.others) if inner is not None
        ]
    return counts


def _cut(shape: Shape, deepest: int) -> Shape:
    """A copy without nodes below a depth."""
    if deepest == 0:
        unread = shape.unread + shape.lists + shape.dicts
        return replace(
            shape, unread=unread, lists=0, items=None, dicts=0, keys={}, others=None, is_map=False, keys_vary=False
        )
    return replace(
        shape,
        items=_cut(shape.items, deepest - 1) if shape.items else None,
        keys={key: _cut(inner, deepest - 1) for key, inner in shape.keys.items()},
        others=_cut(shape.others, deepest - 1) if shape.others else None,
    )


def _count_in(data: dict[str, Any], name: str) -> int:
    count = data.get(name, 0)
    if type(count) is not int or not 0 <= count < 2**53:
        raise ValueError("no count of a shape")
    return count


def _words_in(data: dict[str, Any]) -> dict[str, int] | None:
    words = data.get("w")
    if words is None:
        return None
    if not isinstance(words, dict) or not 0 < len(words) <= MAX_WORDS or max(map(len, words)) > LONGEST_WORD:
        raise ValueError("no words of a shape")
    return {word: _count_in(words, word) for word in words}
