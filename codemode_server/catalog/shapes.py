"""Shapes of JSON values: kinds, field names and how often each occurred; never a value.

A shape is read from one value (`observed`), merged with others in any order (`merge`) and reduced (`settled`).
Keys count as data if they do not look like field names, are very many, or vary from dict to dict; the dict is then a
map and its keys are not stored. Shapes are immutable once returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

MAX_KEYS = 200
"""Maximum number of distinct keys of a dict; with more it is a map."""
MAX_DEPTH = 12
_MIN_VARYING_KEYS = 4
"""Fewer keys of one dict are never taken for data, since all may happen to be alike."""
MAX_NODES = 800
"""Maximum number of nodes of a settled shape; the deepest are dropped first."""


@dataclass(slots=True)
class Shape:
    """One node: the number of values of each kind, and the shapes of their content."""

    nulls: int = 0
    bools: int = 0
    ints: int = 0
    floats: int = 0
    strs: int = 0
    files: int = 0
    unread: int = 0
    lists: int = 0
    items: Shape | None = None
    dicts: int = 0
    keys: dict[str, Shape] = field(default_factory=dict)
    """Shapes by field name, in order of first occurrence; a field that all dicts have has the same total."""
    others: Shape | None = None
    """The merged shape of values under keys that are data."""
    is_map: bool = False
    keys_vary: bool = False
    """True if the keys depend on the arguments of the call; neither keys nor their values are stored then."""

    @property
    def total(self) -> int:
        scalars = self.nulls + self.bools + self.ints + self.floats + self.strs
        return scalars + self.files + self.unread + self.lists + self.dicts

    @property
    def kinds(self) -> tuple[str, ...]:
        """Observed kinds except None; integers among floats count as floats."""
        counts = {
            "dict": self.dicts,
            "list": self.lists,
            "str": self.strs,
            "float" if self.floats else "int": self.ints + self.floats,
            "bool": self.bools,
            "File": self.files,
        }
        return tuple([kind for kind, count in counts.items() if count])

    def is_required(self, key: str) -> bool:
        return key in self.keys and self.keys[key].total >= self.dicts

    @property
    def has_open_keys(self) -> bool:
        """True if more fields must be expected: no field is in every dict, and most are in few, as in query results."""
        if self.dicts < 3 or len(self.keys) < 4:
            return False
        fields = [inner.total for inner in self.keys.values()]
        return max(fields) < self.dicts and sum(fields) <= 0.6 * self.dicts * len(fields)

    def with_inner(self, change: Callable[[Shape], Shape]) -> Shape:
        return replace(
            self,
            items=change(self.items) if self.items else None,
            keys={key: change(inner) for key, inner in self.keys.items()},
            others=change(self.others) if self.others else None,
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
_MESSAGE_KEYS = frozenset(
    ("error", "errors", "message", "messages", "status", "success", "ok", "code", "detail", "details", "reason")
)
"""A dict with no others says that a call failed or succeeded, beside the records of other calls."""


def merge(first: Shape, second: Shape) -> Shape:
    """Both shapes combined; commutative, and changes neither."""
    keys_vary = first.keys_vary or second.keys_vary
    if keys_vary:
        first, second = with_varying_keys(first), with_varying_keys(second)
    if first.is_map or second.is_map:
        first, second = as_map(first), as_map(second)
    keys = first.keys | second.keys
    for key, inner in first.keys.items():
        keys[key] = merge(inner, second.keys[key]) if key in second.keys else inner
    merged = Shape(
        nulls=first.nulls + second.nulls,
        bools=first.bools + second.bools,
        ints=first.ints + second.ints,
        floats=first.floats + second.floats,
        strs=first.strs + second.strs,
        files=first.files + second.files,
        unread=first.unread + second.unread,
        lists=first.lists + second.lists,
        items=merge_optional(first.items, second.items) if first.items else second.items,
        dicts=first.dicts + second.dicts,
        keys=keys,
        others=merge_optional(first.others, second.others) if first.others else second.others,
        is_map=first.is_map,
        keys_vary=keys_vary,
    )
    return as_map(merged) if len(keys) > MAX_KEYS else merged


def merge_optional(first: Shape | None, second: Shape | None) -> Shape | None:
    return merge(first, second) if first and second else first or second


def merge_calls(known: Shape, new: Shape) -> Shape:
    """The shapes of earlier calls and of a new one combined; dicts that share few keys with those of other calls are
    maps from then on if the keys seem to be data, such as names of persons."""
    return merge(_with_maps_where_different(known, new), new)


def _with_maps_where_different(known: Shape, new: Shape) -> Shape:
    if not (new.keys or new.items or new.others):
        return known
    if _are_keys_data(known.keys, new.keys):
        return as_map(known)
    within = _with_maps_where_different
    return replace(
        known,
        items=within(known.items, new.items) if known.items and new.items else known.items,
        keys={key: within(inner, new.keys[key]) if key in new.keys else inner for key, inner in known.keys.items()},
        others=within(known.others, new.others) if known.others and new.others else known.others,
    )


def _are_keys_data(known: dict[str, Shape], new: dict[str, Shape]) -> bool:
    """True if dicts share fewer than half of the smaller one's keys, and all values are of one kind, as under names.
    Values of different kinds are those of fields: of records with many optional ones, or one of several records that a
    tool gives depending on its arguments."""
    if not known or not new or known.keys() <= _MESSAGE_KEYS or new.keys() <= _MESSAGE_KEYS:
        return False
    is_different = 2 * len(known.keys() & new.keys()) < min(len(known), len(new))
    return is_different and _are_alike([*known.values(), *new.values()])


def as_map(shape: Shape) -> Shape:
    return replace(with_keys_as_data(shape, shape.keys), is_map=True)


def with_keys_as_data(shape: Shape, names: Collection[str]) -> Shape:
    others = shape.others
    for name in names:
        others = merge_optional(others, shape.keys[name])
    return replace(shape, keys={key: inner for key, inner in shape.keys.items() if key not in names}, others=others)


def with_varying_keys(shape: Shape) -> Shape:
    return replace(shape, keys={}, others=None, is_map=True, keys_vary=True)


def settled(shape: Shape, max_nodes: int = MAX_NODES) -> Shape:
    """A merged shape as stored and shown: with maps for dicts whose keys are data, and at most `max_nodes` nodes."""
    levels = _levels(shape)
    if max([len(node.keys) for level in levels for node in level]) >= _MIN_VARYING_KEYS:
        levels = _levels(shape := _with_maps(shape))
    nodes = 0
    for depth, level in enumerate(levels):
        nodes += len(level)
        if nodes > max_nodes and depth:
            return _cut(shape, depth - 1)
    return shape


def _levels(shape: Shape) -> list[list[Shape]]:
    """The nodes of a shape by their depth."""
    levels, level = list[list[Shape]](), [shape]
    while level:
        levels.append(level)
        below: list[Shape] = []
        for node in level:
            below += node.keys.values()
            if node.items:
                below.append(node.items)
            if node.others:
                below.append(node.others)
        level = below
    return levels


def outline(shape: Shape) -> tuple[object, ...]:
    """The parts of a shape that its type shows, without counts and order, for comparison."""
    kinds = shape.nulls, shape.bools, shape.floats, shape.strs, shape.files, shape.unread, shape.lists, shape.dicts
    fields = []
    for key, inner in shape.keys.items():
        fields.append((key, shape.is_required(key), outline(inner)))
    return (
        *map(bool, kinds),
        bool(shape.ints or shape.floats),
        shape.is_map,
        shape.keys_vary,
        shape.has_open_keys if fields else False,
        outline(shape.items) if shape.items else None,
        outline(shape.others) if shape.others else None,
        frozenset(fields),
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
    return data


def from_json(data: object, depth: int = 0) -> Shape:
    if not isinstance(data, dict) or depth > 2 * MAX_DEPTH:
        raise ValueError("no shape")
    counts = {name: data.get(short, 0) for name, short in _COUNTS.items()}
    if any(type(count) is not int or not 0 <= count < 2**53 for count in counts.values()):
        raise ValueError("no count of a shape")
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
    )


def _with_maps(shape: Shape) -> Shape:
    if not (shape.keys or shape.items or shape.others):
        return shape
    return (as_map(shape) if _has_varying_keys(shape) else shape).with_inner(_with_maps)


def _has_varying_keys(shape: Shape) -> bool:
    """True if keys that look like field names are data nevertheless: all values have the same kind, and either no key
    is in most of the dicts, or there are many whose values are dicts with the same fields."""
    inner = list(shape.keys.values())
    if len(inner) < _MIN_VARYING_KEYS or not _are_alike(inner):
        return False
    if shape.dicts >= 3 and 2 * max(one.total for one in inner) <= shape.dicts:
        return True
    return len(inner) >= 8 and all(one.keys for one in inner) and len({key for one in inner for key in one.keys}) >= 2


def _are_alike(values: list[Shape]) -> bool:
    """True if all have the same kind and, if they are dicts, mostly the same fields."""
    kinds = {"number" if kind in ("int", "float") else kind for one in values for kind in one.kinds}
    fields = [set(one.keys) for one in values if one.keys]
    every = set().union(*fields)
    return len(kinds) <= 1 and sum(map(len, fields)) >= 0.6 * len(every) * len(fields)


def _cut(shape: Shape, deepest: int) -> Shape:
    if deepest == 0:
        leaf = {name: getattr(shape, name) for name in _COUNTS}
        return Shape(**leaf | {"unread": shape.unread + shape.lists + shape.dicts, "lists": 0, "dicts": 0})
    return shape.with_inner(lambda inner: _cut(inner, deepest - 1))
