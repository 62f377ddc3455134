"""What is learned of results holds no value of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.catalog.shapes import of, to_json
from codemode_server.redaction import shape
from tests.fuzz.strategies import names, scalars, values

keys = st.one_of(st.sampled_from(["id", "name", "Order ID", "alice@example.com", "2026-01-28", "x" * 60]), names)
rows = st.lists(st.dictionaries(keys, st.one_of(scalars, values), max_size=5), max_size=6)
results = st.one_of(values, rows, st.dictionaries(keys, rows, max_size=3))


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
