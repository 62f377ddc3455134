"""Shapes of results: kinds and names of fields, merged in any order, bounded, and never a value.

Pure functions on JSON values, some of them random; seeded, so that a failure comes again.
"""

from __future__ import annotations

import json
import random
from functools import reduce
from typing import Any

import pytest

from codemode_server.catalog.observed import shape_of
from codemode_server.catalog.shapes import from_json, merge, settled, to_json

FIELDS = ("id", "title", "user", "labels", "created_at", "@type", "Order ID", "+1")
MARK = "v4lue"


class Chance:
    """Random JSON of one seed; every string and every key that is data holds MARK."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        return f"{MARK} {self._random.randint(0, 5)}"

    def key(self) -> str:
        if self._random.random() < 0.9:
            return self._random.choice(FIELDS)
        return f"{self._random.randint(0, 999)}-{MARK}@example.com"

    def value(self, depth: int = 4) -> Any:
        kind = self._random.random()
        if depth == 0 or kind < 0.4:
            return self._random.choice([None, True, 7, 1.5, self.text(), self.text()])
        if kind < 0.7:
            return {self.key(): self.value(depth - 1) for _ in range(self._random.randint(0, 4))}
        return [self.value(depth - 1) for _ in range(self._random.randint(0, 6))]

    def shuffled(self, items: list[Any]) -> list[Any]:
        return self._random.sample(items, len(items))


class TestAShape:
    def test_tells_kinds_fields_and_how_often_each_was_seen(self) -> None:
        shape = shape_of([{"id": 1, "body": None}, {"id": 2, "body": "x", "pinned": True}])
        item = shape.items
        assert item is not None
        assert (shape.kinds, item.kinds) == (("list",), ("dict",))
        assert {key: inner.total for key, inner in item.keys.items()} == {"id": 2, "body": 2, "pinned": 1}
        assert [key for key in item.keys if item.is_required(key)] == ["id", "body"]
        assert (item.keys["body"].kinds, item.keys["body"].nulls) == (("str",), 1)

    @pytest.mark.parametrize("seed", range(0, 200, 20))
    def test_is_the_same_in_whatever_order_it_was_merged_and_comes_back_from_its_json(self, seed: int) -> None:
        for chance in map(Chance, range(seed, seed + 20)):
            seen = [shape_of(chance.value()) for _ in range(5)]
            once = reduce(merge, seen)
            assert once == reduce(merge, chance.shuffled(seen))
            assert once == merge(merge(seen[0], seen[1]), merge(seen[2], merge(seen[3], seen[4])))
            assert from_json(json.loads(json.dumps(to_json(once)))) == once


class TestKeysThatAreData:
    @pytest.mark.parametrize(
        "keys",
        [
            ["alice@example.com", "bob@example.com"],
            ["2026-01-31", "2026-02-01"],
            ["a3f5c9d2e1b04f67", "deadbeefcafe0123"],
            ["B08N5WRWNW", "B07XJ8C8F5"],
            ["0", "1", "2"],
            ["README.md", "setup.py"],
            ["Ann Example", "Bob Example"],
        ],
        ids=str,
    )
    def test_are_forgotten_and_what_is_under_them_is_one(self, keys: list[str]) -> None:
        shape = shape_of({key: {"size": 1} for key in keys})
        assert (shape.is_map, shape.keys) == (True, {})
        assert shape.others is not None
        assert shape.others.keys["size"].total == len(keys)
        told = json.dumps(to_json(shape))
        assert not any(json.dumps(key) in told for key in keys)

    def test_that_look_like_fields_are_found_out_by_varying_from_one_dict_to_the_next(self) -> None:
        calls = [{"AAPL": 1.0}, {"MSFT": 2.0}, {"GOOG": 3.0, "AMZN": 1}, {"NVDA": 1.0}]
        shape = settled(reduce(merge, map(shape_of, calls)))
        assert (shape.is_map, shape.keys) == (True, {})

    def test_headings_of_a_table_are_fields_where_every_row_has_them(self) -> None:
        rows = [{"Order ID": "A1", "Total (EUR)": 2.5, "status": "paid"}] * 3
        item = shape_of(rows).items
        assert item is not None
        assert list(item.keys) == ["Order ID", "Total (EUR)", "status"]


class TestWhatIsBounded:
    def test_a_million_keys_become_a_map_of_few_values(self) -> None:
        shape = shape_of({f"k{number}": number for number in range(1_000_000)})
        assert (shape.is_map, shape.others is not None and shape.others.total <= 100) == (True, True)

    def test_deep_nesting_is_cut(self) -> None:
        value: Any = 1
        for _ in range(50_000):
            value = [{"a": value}]
        assert len(json.dumps(to_json(shape_of(value)))) < 300
