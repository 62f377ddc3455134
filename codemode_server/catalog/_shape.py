"""The data structure of shapes, and how two shapes merge."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

MAX_KEYS = 200
"""Maximum number of distinct keys of a dict; with more it is a map."""
MAX_WORDS = 8
"""Maximum number of strings of a closed set."""


@dataclass(slots=True)
class Shape:
    """One node: the number of values of each kind, and the shapes of their content."""

    nulls: int = 0
    bools: int = 0
    ints: int = 0
    floats: int = 0
    strs: int = 0
    files: int = 0
    """Number of binary values, which programs receive as `File`."""
    unread: int = 0
    """Number of dicts and lists that were not read."""
    lists: int = 0
    items: Shape | None = None
    """The merged shape of all items; None if all lists were empty."""
    dicts: int = 0
    keys: dict[str, Shape] = field(default_factory=dict)
    """Shapes by field name, in order of first occurrence; a field that all dicts have has the same total."""
    others: Shape | None = None
    """The merged shape of values under keys that are data."""
    is_map: bool = False
    """True if all keys count as data."""
    keys_vary: bool = False
    """True if the keys depend on the arguments of the call; neither keys nor their values are stored then."""
    words: dict[str, int] | None = field(default_factory=dict)
    """Counts of the strings; None if they are too many or must not be stored."""

    @property
    def total(self) -> int:
        """Number of values."""
        scalars = self.nulls + self.bools + self.ints + self.floats + self.strs
        return scalars + self.files + self.unread + self.lists + self.dicts

    @property
    def kinds(self) -> tuple[str, ...]:
        """Observed kinds except None; integers among floats count as floats."""
        number = "float" if self.floats else "int"
        counts = {
            "dict": self.dicts,
            "list": self.lists,
            "str": self.strs,
            number: self.ints + self.floats,
            "bool": self.bools,
            "File": self.files,
        }
        return tuple(kind for kind, count in counts.items() if count)

    def is_required(self, key: str) -> bool:
        """True if the field was in every dict."""
        return key in self.keys and self.keys[key].total >= self.dicts

    @property
    def has_open_keys(self) -> bool:
        """True if more fields must be expected: no field is in every dict, and most are in few, as in query results."""
        fields = [inner.total for inner in self.keys.values()]
        is_seen_often = self.dicts >= 3 and len(fields) >= 4
        return is_seen_often and max(fields) < self.dicts and sum(fields) <= 0.6 * self.dicts * len(fields)

    @property
    def closed_words(self) -> tuple[str, ...]:
        """The complete set of strings, if there is enough evidence: at least two strings, each observed more than once,
        since a string observed once suggests others not yet observed."""
        words = self.words or {}
        is_closed = 2 <= len(words) <= MAX_WORDS and self.strs >= 20 and min(words.values()) > 1
        return tuple(sorted(words)) if is_closed else ()


def merge(first: Shape, second: Shape) -> Shape:
    """Both shapes combined; commutative, and changes neither."""
    keys_vary = first.keys_vary or second.keys_vary
    if keys_vary:
        first, second = with_varying_keys(first), with_varying_keys(second)
    is_map = first.is_map or second.is_map
    if is_map:
        first, second = as_map(first), as_map(second)
    merged = Shape(
        nulls=first.nulls + second.nulls,
        bools=first.bools + second.bools,
        ints=first.ints + second.ints,
        floats=first.floats + second.floats,
        strs=first.strs + second.strs,
        files=first.files + second.files,
        unread=first.unread + second.unread,
        lists=first.lists + second.lists,
        items=merge_optional(first.items, second.items),
        dicts=first.dicts + second.dicts,
        keys={
            key: merge(shape, second.keys[key]) if key in second.keys else shape for key, shape in first.keys.items()
        },
        others=merge_optional(first.others, second.others),
        is_map=is_map,
        keys_vary=keys_vary,
        words=_merged_words(first.words, second.words),
    )
    for key, shape in second.keys.items():
        merged.keys.setdefault(key, shape)
    return as_map(merged) if len(merged.keys) > MAX_KEYS else merged


def as_map(shape: Shape) -> Shape:
    """A copy as a map, without keys."""
    if not shape.keys:
        return replace(shape, is_map=True)
    others = shape.others
    for inner in shape.keys.values():
        others = merge(others, inner) if others else inner
    return replace(shape, keys={}, others=others, is_map=True)


def with_keys_as_data(shape: Shape, names: Collection[str]) -> Shape:
    """A copy with these keys counted as data, or all keys if these are many."""
    if not names:
        return shape
    others = shape.others
    for name in names:
        others = merge_optional(others, shape.keys[name])
    named = {key: inner for key, inner in shape.keys.items() if key not in names}
    found = replace(shape, keys=named, others=others)
    return as_map(found) if 3 * len(names) > len(named) else found


def with_varying_keys(shape: Shape) -> Shape:
    """A copy whose keys depend on the arguments of the call."""
    return replace(shape, keys={}, others=None, is_map=True, keys_vary=True)


def merge_optional(first: Shape | None, second: Shape | None) -> Shape | None:
    return merge(first, second) if first and second else first or second


def _merged_words(first: dict[str, int] | None, second: dict[str, int] | None) -> dict[str, int] | None:
    if first is None or second is None:
        return None
    merged = {word: first.get(word, 0) + second.get(word, 0) for word in {**first, **second}}
    return merged if len(merged) <= MAX_WORDS else None
