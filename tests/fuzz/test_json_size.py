"""The count that decides whether a text is parsed at all: never lower than what a parser makes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.json_size import holds_too_many_values
from tests.fuzz.strategies import damaged, encoded, spellings, values


def values_and_keys(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + values_and_keys(item) for item in value.values())
    return 1 + sum(map(values_and_keys, value)) if isinstance(value, list) else 1


@given(damaged(st.builds(encoded, values, spellings)), st.integers(1, 3))
@example(rb'["\\","a","\\\"",{"b":[]}]', 1)
@example(b'{"a":1}', 1)
@example(rb'["\"\\\"[,", 1, 2]', 1)
def test_no_text_makes_more_values_than_are_counted(data: bytes, beyond: int) -> None:
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    assert holds_too_many_values(data, values_and_keys(value) - beyond)


@given(values, spellings)
def test_a_text_is_not_refused_for_what_stands_in_its_strings(value: Any, how: int) -> None:
    held = values_and_keys(value)
    assert not holds_too_many_values(encoded(value, how), 2 * held + 1)
