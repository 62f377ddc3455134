"""What was seen at each place of JSON values, and two such sights as one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

MAX_KEYS = 200
"""Different keys of one dict; a dict that has more is a map."""
MAX_WORDS = 8
"""Different strings of a closed set."""


@dataclass(slots=True)
class Shape:
    """What was seen at one place: how many values of each kind, and what was in them."""

    nulls: int = 0
    bools: int = 0
    ints: int = 0
    floats: int = 0
    strs: int = 0
    files: int = 0
    """Bytes, which a program gets as a `File`."""
    unread: int = 0
    """Dicts and lists that were not looked into."""
    lists: int = 0
    items: Shape | None = None
    """All items of all lists as one; None while all were empty."""
    dicts: int = 0
    keys: dict[str, Shape] = field(default_factory=dict)
    """By name of the field, in the order first seen; one that was in all dicts has as many sightings as they."""
    others: Shape | None = None
    """What was under keys that are data, as one."""
    is_map: bool = False
    """Whether all keys are taken for data."""
    keys_vary: bool = False
    """Whether the keys depend on what a call asked for; then neither they nor what is under them is kept."""
    words: dict[str, int] | None = field(default_factory=dict)
    """The strings, as long as they are kept and few; else None."""

    @property
    def total(self) -> int:
        """Values seen here."""
        scalars = self.nulls + self.bools + self.ints + self.floats + self.strs
        return scalars + self.files + self.unread + self.lists + self.dicts

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of values seen, None apart; ints among floats are floats."""
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
        """Whether the field was in every dict."""
        return key in self.keys and self.keys[key].total >= self.dicts

    @property
    def has_open_keys(self) -> bool:
        """Whether fields come and go so much that others must be expected: none is in every dict, and most are in
        few, as in rows of what a query asked for."""
        fields = [inner.total for inner in self.keys.values()]
        is_seen_often = self.dicts >= 3 and len(fields) >= 4
        return is_seen_often and max(fields) < self.dicts and sum(fields) <= 0.6 * self.dicts * len(fields)

    @property
    def closed_words(self) -> tuple[str, ...]:
        """The strings that alone occur here, if they were seen often enough to say so: at least two of them, none of
        them only once, for what was seen once tells of others that were not seen yet."""
        words = self.words or {}
        is_closed = 2 <= len(words) <= MAX_WORDS and self.strs >= 20 and min(words.values()) > 1
        return tuple(sorted(words)) if is_closed else ()


def merge(first: Shape, second: Shape) -> Shape:
    """Both as one; neither is changed, and the order makes no difference."""
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
    """The same with its keys forgotten."""
    if not shape.keys:
        return replace(shape, is_map=True)
    others = shape.others
    for inner in shape.keys.values():
        others = merge(others, inner) if others else inner
    return replace(shape, keys={}, others=others, is_map=True)


def with_keys_as_data(shape: Shape, names: Collection[str]) -> Shape:
    """The same with these of its keys taken for data, and all of them if these are many."""
    if not names:
        return shape
    others = shape.others
    for name in names:
        others = merge_optional(others, shape.keys[name])
    kept = {key: inner for key, inner in shape.keys.items() if key not in names}
    found = replace(shape, keys=kept, others=others)
    return as_map(found) if 3 * len(names) > len(kept) else found


def with_varying_keys(shape: Shape) -> Shape:
    """The same as a dict whose keys depend on what was asked for."""
    return replace(shape, keys={}, others=None, is_map=True, keys_vary=True)


def merge_optional(first: Shape | None, second: Shape | None) -> Shape | None:
    return merge(first, second) if first and second else first or second


def _merged_words(first: dict[str, int] | None, second: dict[str, int] | None) -> dict[str, int] | None:
    if first is None or second is None:
        return None
    merged = {word: first.get(word, 0) + second.get(word, 0) for word in {**first, **second}}
    return merged if len(merged) <= MAX_WORDS else None
