"""Values are counted before a text is parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode_server.json_size import holds_too_many_values


def values_and_keys(value: Any) -> int:
    """What parsing made, counted one by one."""
    if isinstance(value, dict):
        return 1 + sum(1 + values_and_keys(item) for item in value.values())
    return 1 + sum(map(values_and_keys, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([[]] * 100, id="empty lists"),
        pytest.param([{}] * 100, id="empty objects"),
        pytest.param([""] * 100, id="empty strings"),
        pytest.param({str(number): number for number in range(50)}, id="keys"),
        pytest.param([{"a": [1, "x"], "b": {"c": None}}] * 20, id="rows"),
    ],
)
def test_a_text_with_more_values_than_allowed_is_recognised(value: Any) -> None:
    held = values_and_keys(value)
    data = json.dumps(value).encode()
    assert holds_too_many_values(data, held - 1 - data.count(b"[]") - data.count(b"{}"))
    assert not holds_too_many_values(data, 2 * held)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(",[{:" * 1_000, id="separators"),
        pytest.param(json.dumps([{"a": 1}] * 1_000), id="JSON in a string"),
        pytest.param('\\"' * 1_000 + "," * 1_000, id="escaped quotation marks"),
        pytest.param("\\" * 1_001 + "," * 1_000, id="backslashes"),
    ],
)
def test_what_stands_in_a_string_is_not_counted(text: str) -> None:
    assert not holds_too_many_values(json.dumps({"text": text}).encode(), 10)
