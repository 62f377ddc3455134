"""What is learned of results: bounded, the same in whatever order it is learned, and without any value."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.catalog import shapes
from codemode_server.catalog.shapes import Shape, from_json, merge, of, settled, to_json, without_words
from codemode_server.redaction import shape
from tests.fuzz.strategies import names, scalars, values

keys = st.one_of(st.sampled_from(["id", "name", "Order ID", "alice@example.com", "2026-01-28", "x" * 60]), names)
rows = st.lists(st.dictionaries(keys, st.one_of(scalars, values), max_size=5), max_size=6)
results = st.one_of(values, rows, st.dictionaries(keys, rows, max_size=3))
made = st.builds(lambda value, keep: of(value, keep_words=keep), results, st.booleans())


def plain(shape: Shape) -> dict[str, Any]:
    """To compare: the order of keys is that in which they were seen."""
    loaded: dict[str, Any] = json.loads(json.dumps(to_json(shape), sort_keys=True))
    return loaded


@given(made, made)
def test_the_order_of_two_makes_no_difference(first: Shape, second: Shape) -> None:
    before = plain(first), plain(second)
    assert plain(merge(first, second)) == plain(merge(second, first))
    assert merge(first, second).total == first.total + second.total
    assert (plain(first), plain(second)) == before, "a shape is never changed once it was given out"


@given(made)
@example(Shape(dicts=2, is_map=True, keys_vary=True))
def test_what_is_stored_is_what_is_read(shape: Shape) -> None:
    stored = json.dumps(to_json(settled(shape)))
    assert plain(from_json(json.loads(stored))) == plain(settled(shape))
    assert shapes.outline(from_json(json.loads(stored))) == shapes.outline(settled(shape))


loose = st.recursive(
    values,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **{key: st.one_of(st.integers(-2, 5), inner) for key in "zbifsFuld"},
            "m": inner,
            "v": inner,
            "I": inner,
            "o": inner,
            "w": st.dictionaries(names, st.integers(-1, 3), max_size=3),
            "k": st.one_of(st.dictionaries(keys, inner, max_size=3), inner),
        },
    ),
    max_leaves=10,
)


@given(loose)
@example({"w": {}, "s": 1})
@example({"s": True})
@example({"k": {"a": {"k": {"a": {"I": {"I": {}}}}}}})
def test_whatever_is_stored_is_a_shape_or_refused(data: Any) -> None:
    try:
        found = from_json(data)
    except ValueError:
        return
    merged = settled(merge(found, of([{"a": 1}])))
    json.dumps(to_json(without_words(merged)))
    shapes.outline(merged)


@given(results)
@example([{"a": "Alice lives at 12 Long Road, Springfield", "b": ["4111 1111 1111 1111 is her number"]}])
def test_a_shape_holds_no_value(value: Any) -> None:
    strings = {it for it in _strings(value) if len(it) > 20}
    kept = json.dumps([to_json(of(value)), shape(value)], ensure_ascii=False)
    keys_kept = set(_keys(value))
    assert not any(text in kept for text in strings - keys_kept)


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _strings(item)]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in _keys(item))]
    return [text for item in value for text in _keys(item)] if isinstance(value, list) else []
