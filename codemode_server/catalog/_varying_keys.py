"""Finds dicts whose keys depend on the arguments of the call, such as the columns of a query. Rows that are lists have
no keys, but their values depend on a query in the same way.

Such keys predict nothing about the next call, so they are not stored. There are two criteria:

- The call names the keys: two or more, all in one argument that is a query (`SELECT id, total FROM …`) or contains
  little else (`fields="id,title"`). This is known at the first call.
- Two calls returned dicts that share fewer than a third of the smaller one's keys. Optional fields do not meet this:
  records of one API share most keys of the smaller record, or one has all keys of the other. Outside of lists, a single
  key or a message such as `{"error": …}` does not count. Calls with different values of an argument that lists its
  values (`mode="log"`) are not compared, since the argument explains the difference.

In 355 results of eleven real servers (`benchmarks/result_types`), the first criterion matches five, all of them
queries; the second matches rows of queries, and cells of a sheet by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from codemode_server.catalog._shape import Shape, with_varying_keys

Path = tuple[str, ...]
"""Path from the result: keys, `ITEM` for items of a list, `OTHER` for values under keys that are data."""
ITEM = "[]"
OTHER = "{}"
_MAX_QUERY_CHARACTERS = 20_000
_WORD = re.compile(r"[^\W\d]\w*")
_QUERY = re.compile(
    r"\s*(?:\{|(?:select|with|from|match|query|show|describe|pragma|explain|summarize|values)\b)", re.IGNORECASE
)
_MESSAGE_KEYS = frozenset(
    ("error", "errors", "message", "messages", "status", "success", "ok", "code", "detail", "details", "reason")
)


def places_that_differ(known: Shape, new: Shape, path: Path = ()) -> Iterator[Path]:
    """Paths of dicts that share too few keys between two calls to be one kind of record."""
    if known.dicts and new.dicts and not (known.is_map or new.is_map):
        if _have_little_in_common(known.keys.keys(), new.keys.keys(), are_rows=path[-1:] == (ITEM,)):
            yield path
            return
        for key in known.keys.keys() & new.keys.keys():
            yield from places_that_differ(known.keys[key], new.keys[key], (*path, key))
    if known.items and new.items:
        yield from places_that_differ(known.items, new.items, (*path, ITEM))
    if known.others and new.others:
        yield from places_that_differ(known.others, new.others, (*path, OTHER))


def without_asked_for(shape: Shape, arguments: Mapping[str, Any]) -> Shape:
    """The shape of one call's result without the parts that its arguments determine: keys that they name and, if the
    call had a query, kinds and number of the values in rows that are lists."""
    if not (shape.keys or shape.items or shape.others):
        return shape
    asked = [words for value in arguments.values() if (words := _query_words(value))]
    if any(is_query for _, is_query in asked):
        shape = _without_cells(shape)
    named = [path for path, keys in _dicts(shape) if len(keys) >= 2 and any(_names(keys, words) for words in asked)]
    return without_keys(shape, named)


def _without_cells(shape: Shape) -> Shape:
    items = _without_cells(shape.items) if shape.items else None
    if items and items.items and not (items.items.dicts or items.items.lists):
        items = replace(items, items=Shape(unread=items.items.total))
    return replace(
        shape,
        items=items,
        others=_without_cells(shape.others) if shape.others else None,
        keys={key: _without_cells(inner) for key, inner in shape.keys.items()},
    )


def without_keys(shape: Shape, places: Collection[Path]) -> Shape:
    """A copy without the keys at these paths."""
    if not places:
        return shape
    if () in places:
        return with_varying_keys(shape)

    def within(step: str, inner: Shape) -> Shape:
        return without_keys(inner, [path[1:] for path in places if path[0] == step])

    return replace(
        shape,
        items=within(ITEM, shape.items) if shape.items else None,
        others=within(OTHER, shape.others) if shape.others else None,
        keys={key: within(key, inner) for key, inner in shape.keys.items()},
    )


def _have_little_in_common(first: Set[str], second: Set[str], *, are_rows: bool) -> bool:
    smaller = min(len(first), len(second))
    if 3 * len(first & second) >= smaller or not smaller or first <= _MESSAGE_KEYS or second <= _MESSAGE_KEYS:
        return False
    return are_rows or (smaller > 1 and not first & second)


def _query_words(value: Any) -> tuple[frozenset[str], bool] | None:
    """The words of an argument that is a text or a list of texts, and whether it starts like a query."""
    texts: Iterable[Any] = value if isinstance(value, list) else [value]
    if not isinstance(value, str | list) or not all(isinstance(text, str) for text in texts):
        return None
    text = " ".join(texts)
    if len(text) > _MAX_QUERY_CHARACTERS:
        return None
    return frozenset(word.casefold() for word in _WORD.findall(text)), _QUERY.match(text) is not None


def _names(keys: Collection[str], asked: tuple[frozenset[str], bool]) -> bool:
    words, is_query = asked
    named = {word.casefold() for key in keys for word in _WORD.findall(key)}
    return named <= words and (is_query or 2 * len(named) >= len(words))


def _dicts(shape: Shape, path: Path = ()) -> Iterator[tuple[Path, Collection[str]]]:
    if shape.keys:
        yield path, shape.keys.keys()
    for key, inner in shape.keys.items():
        yield from _dicts(inner, (*path, key))
    for step, below in ((ITEM, shape.items), (OTHER, shape.others)):
        if below is not None:
            yield from _dicts(below, (*path, step))
