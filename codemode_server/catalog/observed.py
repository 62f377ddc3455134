"""Observations of a tool's results: the number of its successful calls, and the shape of all results.

The shape of a value is read in bounded time: only some items of a long list are read, always the same ones. Values
deeper than `MAX_DEPTH`, or beyond the budget of one value, are counted but not read. Column headings (`Order ID`),
which look like names of people, are stored if several rows have all of them. Keys that the arguments of the call
determine, such as the columns of a query, predict nothing about the next call and are not stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from codemode_server.catalog import shapes
from codemode_server.catalog.shapes import (
    MAX_DEPTH,
    MAX_KEYS,
    Shape,
    as_map,
    merge_optional,
    with_keys_as_data,
    with_varying_keys,
)
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import ToolDefinition
from codemode_server.support.field_names import is_field_name, is_label

MAX_BYTES = 16_384
_STEPS = 4_000
_SAMPLES = (60, 24, 10, 5)
"""Maximum number of items that are read, by the nesting depth of the list."""
_MAP_SAMPLES = 40
_MAX_QUERY_CHARACTERS = 20_000
_WORD = re.compile(r"[^\W\d]\w*")
_QUERY = re.compile(
    r"\s*(?:\{|(?:select|with|from|match|query|show|describe|pragma|explain|summarize|values)\b)", re.IGNORECASE
)
_SELECT = re.compile(r"\s*(?:select\b.*\bfrom|with\b.*\bselect)\b", re.IGNORECASE | re.DOTALL)


class ToolKey(NamedTuple):
    """Identifies a tool with the schemas that it had when it was observed."""

    upstream: str
    tool: str
    schemas: str
    """Digest of its schemas; a tool with other schemas is observed anew."""


@dataclass(frozen=True, slots=True)
class Observed:
    calls: int
    shape: Shape
    block_lists: int = 0
    """Number of calls whose result came as a content block for each item: the tool gives lists."""

    def merged(self, other: Observed) -> Observed:
        shape = shapes.settled(shapes.merge_calls(self.shape, other.shape))
        return Observed(self.calls + other.calls, shape, self.block_lists + other.block_lists)

    @property
    def result_shape(self) -> Shape:
        """The shape of its results as programs get them: of a tool that gives lists, a lone item is in one."""
        if not self.block_lists or not (self.shape.dicts or self.shape.nulls):
            return self.shape
        lone = replace(self.shape, nulls=0, lists=0, items=None, strs=0)
        items = merge_optional(self.shape.items, lone) if self.shape.dicts else self.shape.items
        lists = self.shape.lists + self.shape.dicts + self.shape.nulls
        return Shape(lists=lists, items=items, strs=self.shape.strs, unread=self.shape.unread)

    def to_json(self) -> str:
        """JSON of at most `MAX_BYTES`, without the deepest parts if it would be longer."""
        nodes, shape = shapes.MAX_NODES, self.shape
        while True:
            data = {"calls": self.calls, "shape": shapes.to_json(shape), "lists": self.block_lists}
            text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
            if len(text) <= MAX_BYTES or nodes <= 1:
                return text
            nodes //= 2
            shape = shapes.settled(self.shape, nodes)

    @classmethod
    def from_json(cls, text: str | bytes) -> Observed | None:
        """Reads the output of `to_json`; None for anything else, such as a damaged row."""
        try:
            data = json.loads(text) if len(text) <= MAX_BYTES else {}
            counts = calls, lists = data["calls"], data.get("lists", 0)
            is_valid = all(type(count) is int and 0 <= count < 2**53 for count in counts)
            return cls(calls, shapes.from_json(data["shape"]), lists) if is_valid else None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None


NOTHING_YET = Observed(0, Shape())


def observe(arguments: Mapping[str, Any], value: Any, encoding: str, *, is_block_list: bool = False) -> Observed:
    """The observation of one call; `value` is the reply that the program gets, without secrets."""
    shape = shapes.settled(_without_asked(_shape_of_reply(value, encoding), arguments))
    return Observed(1, shape, int(is_block_list))


def schemas_digest(definition: ToolDefinition) -> str:
    try:
        said = json.dumps([definition.input_schema, definition.output_schema], default=str)
    except (RecursionError, ValueError, TypeError):
        said = "unreadable"  # nested too deeply; the stub has Any there
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()[:16]


def shape_of(value: JsonValue) -> Shape:
    shape = Shape()
    reading = _Reading()
    reading.add(shape, value, 0, 0)
    return _without_doubtful_labels(shape) if reading.has_labels else shape


def _shape_of_reply(value: JsonValue, encoding: str) -> Shape:
    """The shape of a reply as programs receive it: the content of a single block, or a list of contents."""
    if encoding != "blocks" or not isinstance(value, list):
        return shape_of(value)
    blocks = [_shape_of_block(block) for block in _sampled(value, _SAMPLES[0])]
    if len(blocks) == 1:
        return blocks[0]
    items = None
    for block in blocks:
        items = merge_optional(items, block)
    return Shape(lists=1, items=items)


def _without_asked(shape: Shape, arguments: Mapping[str, Any]) -> Shape:
    """The shape of one call's result without the parts that its arguments determine.

    These are all keys of rows if an argument is an SQL query; the keys of a dict if one argument that is a query
    (`{ user { id total } }`) or contains little else (`fields="id,title"`) names two or more of them and no other; and
    the values in rows that are lists, if an argument is a query."""
    asked = [_Asked.of(value) for value in arguments.values() if isinstance(value, str | list)]
    return _without_asked_keys(shape, asked, is_row=False) if asked else shape


@dataclass(frozen=True, slots=True)
class _Asked:
    words: frozenset[str]
    is_query: bool = False
    is_select: bool = False

    @classmethod
    def of(cls, value: str | list[Any]) -> _Asked:
        texts = value if isinstance(value, list) else [value]
        text = " ".join(texts) if all(isinstance(text, str) for text in texts) else ""
        if len(text) > _MAX_QUERY_CHARACTERS:
            return cls(frozenset())
        words = frozenset(word.casefold() for word in _WORD.findall(text))
        return cls(words, _QUERY.match(text) is not None, _SELECT.match(text) is not None)

    def names(self, keys: Mapping[str, object]) -> bool:
        named = {word.casefold() for key in keys for word in _WORD.findall(key)}
        return len(keys) >= 2 and named <= self.words and (self.is_query or 2 * len(named) >= len(self.words))


def _without_asked_keys(shape: Shape, asked: list[_Asked], *, is_row: bool) -> Shape:
    if shape.keys and any((is_row and one.is_select) or one.names(shape.keys) for one in asked):
        return with_varying_keys(shape)
    cells = shape.items
    if is_row and cells and not (cells.dicts or cells.lists) and any(one.is_query for one in asked):
        return replace(shape, items=Shape(unread=cells.total))
    return replace(
        shape,
        items=_without_asked_keys(cells, asked, is_row=True) if cells else None,
        keys={key: _without_asked_keys(inner, asked, is_row=False) for key, inner in shape.keys.items()},
        others=_without_asked_keys(shape.others, asked, is_row=False) if shape.others else None,
    )


class _Reading:
    def __init__(self) -> None:
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
        elif isinstance(value, bool):
            shape.bools += 1
        elif isinstance(value, int):
            shape.ints += 1
        elif isinstance(value, float):
            shape.floats += 1
        elif depth >= MAX_DEPTH or self._left <= reserve or not isinstance(value, list | dict):
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
        for key, item in value.items() if names else _ends(value):
            after -= 1
            if key in names:
                inner = shape.keys.setdefault(key, Shape())
            else:
                inner = shape.others = shape.others or Shape()
            self.add(inner, item, depth + 1, lists, self._reserve(reserve, after))
        if len(shape.keys) > MAX_KEYS:
            _make_map(shape)

    def _names_of(self, value: dict[str, Any]) -> set[str]:
        if len(value) > MAX_KEYS:
            return set()
        unknown = value.keys() - self._names
        fields = set(filter(is_field_name, unknown))
        labels = set(filter(is_label, unknown - fields))
        self.has_labels |= bool(labels)
        self._names |= fields | labels
        return value.keys() & self._names

    def _reserve(self, reserve: int, after: int) -> int:
        """The budget to leave for the siblings after a value: an equal share each."""
        return reserve + max(0, self._left - reserve) * after // (after + 1)


def _shape_of_block(block: Any) -> Shape:
    match block:
        case {"type": "file"}:
            return Shape(files=1)
        case {"type": "text", "text": str()}:
            return Shape(strs=1)
        case {"type": "json", "value": value}:
            return shape_of(value)
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
    """A copy without labels that may not be table headings: those that a row lacks, or with few rows. With many of
    them, all keys are data."""
    doubtful = [key for key in shape.keys if not is_field_name(key) and (shape.dicts < 3 or not shape.is_required(key))]
    if doubtful:
        is_map = 3 * len(doubtful) > len(shape.keys) - len(doubtful)
        shape = as_map(shape) if is_map else with_keys_as_data(shape, doubtful)
    return shape.with_inner(_without_doubtful_labels)
