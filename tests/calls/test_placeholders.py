"""Placeholders have the type of the result, and are recognised in arguments as far as that is possible."""

from __future__ import annotations

import html
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from codemode_server.features.dry_run.placeholders import calls_in, placeholder_of, without_numbers

TITLE = "github.create_issue"


def made(schema: Any, seq: int = 3) -> Any:
    return placeholder_of(schema, schema, seq, TITLE)[0]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "<result of github.create_issue #3>"),
        ({"type": ["null", "integer"]}, 4_000_000_000_003_000),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, True),
        ({"enum": [None, "open", "closed"]}, "open"),
        ({"type": "array", "items": {"type": "null"}}, [None]),
        (
            {
                "properties": {"user": {"$ref": "#/$defs/user"}},
                "$defs": {"user": {"properties": {"id": {"type": "string"}}}},
            },
            {"user": {"id": "<user.id of github.create_issue #3>"}},
        ),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, {"<key of github.create_issue #3>": True}),
        ({}, "<result of github.create_issue #3>"),
    ],
)
def test_a_placeholder_has_the_type_of_the_schema(schema: dict[str, Any], value: Any) -> None:
    assert made(schema) == value


def test_what_is_of_unknown_type_is_named() -> None:
    _, unknown = placeholder_of({"properties": {"a": {}, "b": {"type": "string"}}}, None, 1, TITLE)
    assert unknown == ["<a of github.create_issue #1>"]


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    schema = {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"$ref": "#"}}}
    assert len(json.dumps(made(schema))) < 100_000


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        *({"type": "string", "format": name} for name in ("uuid", "uri", "email")),
    ],
)
def test_a_placeholder_is_recognised_alone_and_within_other_values(schema: dict[str, Any]) -> None:
    value = made(schema)
    for one in (value, str(value), f"see {value}!", [{"a": [value]}], {str(value): 1}, json.dumps({"x": value})):
        assert calls_in(one) == {3}, one
    for spelling in (quote(str(value)), quote_plus(str(value)), html.escape(str(value)), str(value).lower()):
        assert calls_in(f"https://example.com/{spelling}") == {3}, spelling


@pytest.mark.parametrize("value", ["2026-01-04", 17, 4_000_000, "call 3", True, None, 1e300, float("inf"), "1971"])
def test_ordinary_values_are_no_placeholders(value: Any) -> None:
    assert calls_in(value) == frozenset()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (4_000_000_000_003_000, "<number from call 3>"),
        (4_000_000_000_003_000.5, "<number from call 3>"),
        ("is 4000000000003000.", "is <number from call 3>."),
        ({"a": [4_000_000_000_003_001]}, {"a": ["<number from call 3>"]}),
        *((it, it) for it in (1, 1.5, True, None, "4,000", 1_764_000_000_000_000_000, "4111111111111111", 1e300)),
    ],
)
def test_numbers_of_placeholders_are_not_shown_and_others_are(value: Any, shown: Any) -> None:
    assert without_numbers(value) == shown
