"""What JSON values look like: kinds, names of fields, and how often each was seen; never a value.

A shape is made of one value (`of`), merged with others in any order (`merge`), tidied (`settled`) and compared with
what came later (`contradictions`). Keys are data where they do not read like names of fields, are very many, or vary
from one dict to the next; then the dict is a map and its keys are forgotten. Headings of columns (`Order ID`), which
names of people look like, are kept where all of several rows have them.

Work and size are bounded: of a long list some items are looked at, always the same ones; what lies deeper than
`_DEEPEST`, or comes when the budget of one value is spent, is seen and not read. A shape is never changed once it was
given out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from codemode_server.model import JsonValue
from codemode_server.redaction import is_field_name, is_label

MOST_KEYS = 200
"""Different keys of one dict; a dict that has more is a map."""
MOST_NODES = 800
"""Places of a settled shape; the deepest are forgotten first."""
MOST_WORDS = 8
"""Different strings of a closed set."""
_LONGEST_WORD = 40
_DEEPEST = 12
_STEPS = 4_000
"""Values of one result that are looked at."""
_SAMPLES = (60, 24, 10, 5)
"""Items of a list that are looked at: of one that is in no other, of one in another …"""
_MAP_SAMPLES = 40


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
        is_closed = 2 <= len(words) <= MOST_WORDS and self.strs >= 20 and min(words.values()) > 1
        return tuple(sorted(words)) if is_closed else ()


def of(value: JsonValue, *, keep_words: bool = False) -> Shape:
    """The shape of one JSON value; its short strings are in it only with `keep_words`."""
    shape = Shape()
    reading = _Reading(keep_words)
    reading.add(shape, value, 0, 0)
    return _without_doubtful_labels(shape) if reading.has_labels else shape


def of_reply(value: JsonValue, encoding: str, *, keep_words: bool = False) -> Shape:
    """The shape of a reply as a program gets it: of a lone block what it holds, of several a list of these."""
    if encoding != "blocks" or not isinstance(value, list):
        return of(value, keep_words=keep_words)
    found = [_of_block(block, keep_words) for block in _sampled(value, _SAMPLES[0])]
    if len(found) == 1:
        return found[0]
    items = None
    for one in found:
        items = merge(items, one) if items else one
    return Shape(lists=1, items=items)


def merge(first: Shape, second: Shape) -> Shape:
    """Both as one; neither is changed, and the order makes no difference."""
    is_map = first.is_map or second.is_map
    if is_map:
        first, second = _as_map(first), _as_map(second)
    merged = Shape(
        nulls=first.nulls + second.nulls,
        bools=first.bools + second.bools,
        ints=first.ints + second.ints,
        floats=first.floats + second.floats,
        strs=first.strs + second.strs,
        files=first.files + second.files,
        unread=first.unread + second.unread,
        lists=first.lists + second.lists,
        items=_merge_optional(first.items, second.items),
        dicts=first.dicts + second.dicts,
        keys={
            key: merge(shape, second.keys[key]) if key in second.keys else shape for key, shape in first.keys.items()
        },
        others=_merge_optional(first.others, second.others),
        is_map=is_map,
        words=_merged_words(first.words, second.words),
    )
    for key, shape in second.keys.items():
        merged.keys.setdefault(key, shape)
    return _as_map(merged) if len(merged.keys) > MOST_KEYS else merged


def settled(shape: Shape, most_nodes: int = MOST_NODES) -> Shape:
    """What is kept and shown of a merged shape: dicts whose keys turned out to be data as maps, and no more than
    `most_nodes` places."""
    shape = _with_maps(shape)
    levels = _levels(shape)
    places = 0
    for depth, count in enumerate(levels):
        places += count
        if places > most_nodes and depth:
            return _cut(shape, depth - 1)
    return shape


def without_words(shape: Shape) -> Shape:
    """The same without any string of the values."""
    return replace(
        shape,
        items=without_words(shape.items) if shape.items else None,
        keys={key: without_words(inner) for key, inner in shape.keys.items()},
        others=without_words(shape.others) if shape.others else None,
        words=None if shape.strs else {},
    )


def outline(shape: Shape) -> tuple[object, ...]:
    """What a type tells of a shape, to compare: no counts and no order."""
    return (
        shape.kinds,
        bool(shape.nulls),
        bool(shape.unread),
        shape.is_map,
        shape.has_open_keys,
        shape.closed_words,
        outline(shape.items) if shape.items else None,
        outline(shape.others) if shape.others else None,
        frozenset((key, shape.is_required(key), outline(inner)) for key, inner in shape.keys.items()),
    )


def to_json(shape: Shape) -> dict[str, Any]:
    """A shape as plain data; what is 0 or empty is left out."""
    data: dict[str, Any] = {short: count for name, short in _COUNTS.items() if (count := getattr(shape, name))}
    if shape.is_map:
        data["m"] = 1
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
    """The shape that `to_json` gave.

    Raises:
        ValueError: it is no such thing.
    """
    if not isinstance(data, dict) or depth > 2 * _DEEPEST:
        raise ValueError("no shape")
    counts = {name: _count_in(data, short) for name, short in _COUNTS.items()}
    keys = data.get("k", {})
    if (
        not isinstance(keys, dict)
        or len(keys) > MOST_KEYS
        or not all(is_field_name(key) or is_label(key) for key in keys)
    ):
        raise ValueError("no keys of a shape")
    return Shape(
        **counts,
        items=from_json(data["I"], depth + 1) if "I" in data else None,
        keys={key: from_json(inner, depth + 1) for key, inner in keys.items()},
        others=from_json(data["o"], depth + 1) if "o" in data else None,
        is_map=data.get("m") == 1,
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


class _Reading:
    """Looks at one value, within its budget."""

    def __init__(self, keep_words: bool) -> None:
        self._keep_words = keep_words
        self._left = _STEPS
        self._names: set[str] = set()
        """Keys of this value that are names of fields or labels, so that each is checked once."""
        self.has_labels = False

    def add(self, shape: Shape, value: JsonValue, depth: int, lists: int, reserve: int = 0) -> None:
        """Count the value in; `reserve` of the budget is for what comes after it."""
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
        elif depth >= _DEEPEST or self._left <= reserve or not isinstance(value, list | dict):
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
        # Of a map first and last ones do: to spread over all of them takes time without bound.
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
        if len(shape.keys) > MOST_KEYS:
            _make_map(shape)

    def _names_of(self, value: dict[str, Any]) -> set[str]:
        if len(value) > MOST_KEYS:
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
        """What one of several must leave: an even share for each of those after it."""
        return reserve + max(0, self._left - reserve) * after // (after + 1)

    def _add_word(self, shape: Shape, text: str) -> None:
        words = shape.words
        if words is None:
            return
        if self._keep_words and len(text) <= _LONGEST_WORD and text.isprintable():
            words[text] = words.get(text, 0) + 1
            if len(words) <= MOST_WORDS:
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
    """All of a short list; of a longer one the first, the last, and some from all over it."""
    if len(items) <= most:
        return items
    edge = most // 3
    middle = len(items) - 2 * edge
    spread = most - 2 * edge
    return [*items[:edge], *(items[edge + middle * step // spread] for step in range(spread)), *items[-edge:]]


def _ends(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from islice(value.items(), _MAP_SAMPLES)
    yield from islice(reversed(value.items()), max(0, min(_MAP_SAMPLES, len(value) - _MAP_SAMPLES)))


def _without_doubtful_labels(shape: Shape) -> Shape:
    """Without labels that are not those of a table: one that some row lacks, or that has few rows to show for it."""
    doubtful = [key for key in shape.keys if not is_field_name(key) and (shape.dicts < 3 or not shape.is_required(key))]
    others = shape.others
    for key in doubtful:
        others = _merge_optional(others, shape.keys[key])
    kept = {key: _without_doubtful_labels(inner) for key, inner in shape.keys.items() if key not in doubtful}
    found = replace(
        shape,
        items=_without_doubtful_labels(shape.items) if shape.items else None,
        keys=kept,
        others=_without_doubtful_labels(others) if others else None,
    )
    return _as_map(found) if 3 * len(doubtful) > len(kept) else found


def _make_map(shape: Shape) -> None:
    folded = _as_map(shape)
    shape.keys, shape.others, shape.is_map = folded.keys, folded.others, True


def _as_map(shape: Shape) -> Shape:
    """The same with its keys forgotten."""
    if not shape.keys:
        return replace(shape, is_map=True)
    others = shape.others
    for inner in shape.keys.values():
        others = merge(others, inner) if others else inner
    return replace(shape, keys={}, others=others, is_map=True)


def _merge_optional(first: Shape | None, second: Shape | None) -> Shape | None:
    return merge(first, second) if first and second else first or second


def _merged_words(first: dict[str, int] | None, second: dict[str, int] | None) -> dict[str, int] | None:
    if first is None or second is None:
        return None
    merged = {word: first.get(word, 0) + second.get(word, 0) for word in {**first, **second}}
    return merged if len(merged) <= MOST_WORDS else None


def _with_maps(shape: Shape) -> Shape:
    if shape.items is None and shape.others is None and not shape.keys:
        return shape
    if _has_varying_keys(shape):
        shape = _as_map(shape)
    return replace(
        shape,
        items=_with_maps(shape.items) if shape.items else None,
        keys={key: _with_maps(inner) for key, inner in shape.keys.items()},
        others=_with_maps(shape.others) if shape.others else None,
    )


def _has_varying_keys(shape: Shape) -> bool:
    """Whether the keys look like names of fields one by one, and like data all together: the same kind of value under
    each, and either none in most of the dicts, or many that hold dicts of the same fields."""
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


def _levels(shape: Shape) -> list[int]:
    """How many places there are at each depth."""
    level, counts = [shape], []
    while level:
        counts.append(len(level))
        level = [
            inner for outer in level for inner in (*outer.keys.values(), outer.items, outer.others) if inner is not None
        ]
    return counts


def _cut(shape: Shape, deepest: int) -> Shape:
    """Without what is below so many levels."""
    if deepest == 0:
        unread = shape.unread + shape.lists + shape.dicts
        return replace(shape, unread=unread, lists=0, items=None, dicts=0, keys={}, others=None, is_map=False)
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
    if not isinstance(words, dict) or not 0 < len(words) <= MOST_WORDS or max(map(len, words)) > _LONGEST_WORD:
        raise ValueError("no words of a shape")
    return {word: _count_in(words, word) for word in words}
