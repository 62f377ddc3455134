"""A key that a schema allows and does not declare is sent; if it looks like a misspelt one, the answer says so.

Without that a misspelt `stauts` is lost: most servers ignore keys that they don't know.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.tools import ToolDefinition
from codemode_server.gateway.arguments import check_arguments
from codemode_server.gateway.misspelt_keys import misspelt_keys
from tests.gateway.test_arguments import refusal, tool
from tests.gateway.test_learning import Product
from tests.work import lines_run

FILTER: dict[str, Any] = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "full_name": {"type": "string"}, "limit": {"type": "integer"}},
}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"filter": FILTER}}


def doubts(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    return check_arguments(tool(schema), arguments)


def test_a_misspelt_optional_key_is_named_with_the_one_that_was_probably_meant() -> None:
    assert doubts(SCHEMA, {"filter": {"stauts": "open", "limit": 3}}) == [
        "github.create_issue declares no key 'stauts' in 'filter', which was sent all the same; did you mean 'status'?"
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"status": "open", "limit": 3},
        {"colour": "red"},
        {"name": "a", "limit_of_memory": 3},
        {"stauts": "open", "status": "open"},
    ],
    ids=["right keys", "a key like none", "keys that share a word", "the right key is there too"],
)
def test_other_keys_are_not_doubted(given: dict[str, Any]) -> None:
    assert doubts(SCHEMA, {"filter": given}) == []


def test_a_key_is_found_in_lists_behind_references_and_in_alternatives() -> None:
    schema = {
        "type": "object",
        "properties": {"all": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/filter"}, {"type": "null"}]}}},
        "$defs": {"filter": FILTER},
    }
    (line,) = doubts(schema, {"all": [None, {"fullName": "a"}, {"limt": 3}]})[:1]
    assert "'limt' in 'all[2]'" in line


def test_an_argument_is_doubted_where_a_tool_takes_any() -> None:
    is_open = {**FILTER, "additionalProperties": True}
    assert "declares no key 'stauts', which" in doubts(is_open, {"stauts": "open"})[0]


def test_where_no_other_keys_are_allowed_the_call_is_refused_as_before() -> None:
    closed = {"type": "object", "properties": {"filter": {**FILTER, "additionalProperties": False}}}
    assert "'filter' has no key 'stauts' (did you mean 'status'?)" in refusal(closed, {"filter": {"stauts": "open"}})


async def test_the_call_is_sent_and_the_model_is_told_once(product: Callable[..., Product]) -> None:
    listed = product(tools=(ToolDefinition("list-issues", input_schema=SCHEMA),))
    listed.upstream.answer = {"ok": True}
    calls = listed.program()
    for _ in range(3):
        reply = await listed.gateway.call(calls, "git-hub", "list_issues", {"filter": {"stauts": "open"}})
        assert reply.value == {"ok": True}
    assert calls.messages == [
        "git_hub.list_issues declares no key 'stauts' in 'filter', which was sent all the same; did you mean 'status'?"
    ]


def test_hostile_schemas_and_arguments_take_bounded_work() -> None:
    """Work grows neither with the product of declared and given keys nor with the references of a schema."""
    declared: dict[str, Any] = {f"status_{'x' * 80}_{number}": {} for number in range(1_000)}
    given = {f"stauts_{'x' * 80}_{number}": 1 for number in range(1_000)}
    loop = {"$ref": "#/properties/all"}
    schema = {
        "type": "object",
        "properties": {"all": {"type": "array", "items": {**FILTER, "anyOf": [loop] * 50, "properties": declared}}},
    }
    wrong = tool(schema)
    small = lines_run(lambda: misspelt_keys(wrong, {"all": [dict(list(given.items())[:30])]}))
    large = lines_run(lambda: misspelt_keys(wrong, {"all": [given]}))
    assert large < 3 * small


@pytest.fixture
def product(tmp_path: Path) -> Callable[..., Product]:
    return lambda **settings: Product(tmp_path / "state", **settings)
