"""Arguments are checked against the tool's schema before anything is sent; the message says what is right."""

from __future__ import annotations

import time
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.errors import InvalidArguments
from codemode_server.gateway.arguments import check_arguments
from codemode_server.model import ToolDefinition, UpstreamListing, UpstreamState

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "state": {"enum": ["open", "closed"]},
    },
    "required": ["title"],
}


def tool(schema: dict[str, Any]) -> Tool:
    definition = ToolDefinition("create_issue", input_schema=schema)
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, (definition,))])
    return catalog.tool("github", "create_issue")


def refusal(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    with pytest.raises(InvalidArguments) as caught:
        check_arguments(tool(schema), arguments)
    return str(caught.value)


def test_right_arguments_pass_and_are_measured() -> None:
    assert check_arguments(tool(SCHEMA), {"title": "é"}) == len('{"title": "é"}'.encode())


class TestWrongArguments:
    def test_a_missing_one_is_named(self) -> None:
        assert refusal(SCHEMA, {}) == ("github.create_issue: 'title' is required. It takes title, labels?, state?.")

    def test_an_unknown_one_is_answered_with_the_nearest(self) -> None:
        assert refusal(SCHEMA, {"title": "a", "label": []}) == (
            "github.create_issue: there is no 'label' (did you mean 'labels'?). It takes title, labels?, state?."
        )

    def test_a_wrong_type_deep_inside_is_placed(self) -> None:
        assert "'labels[1]' must be string, not 3" in refusal(SCHEMA, {"title": "a", "labels": ["x", 3]})

    def test_a_wrong_choice_is_answered_with_the_right_ones(self) -> None:
        assert '\'state\' must be one of "open", "closed", not "ajar"' in refusal(
            SCHEMA, {"title": "a", "state": "ajar"}
        )

    def test_what_is_no_json_is_refused(self) -> None:
        assert "no JSON" in refusal(SCHEMA, {"title": {1, 2}})


class TestAHostileSchema:
    """The schema is the upstream's; it must not be able to harm the host. The first test is the positive control."""

    def test_is_checked_in_its_harmless_parts(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer", "pattern": "(a+)+$"}}}
        assert "must be integer" in refusal(schema, {"a": "x"})

    def test_cannot_run_a_regular_expression_that_never_ends(self) -> None:
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}},
            "patternProperties": {"^(a+)+$": {"type": "integer"}},
        }
        started = time.monotonic()
        check_arguments(tool(schema), {"a": "a" * 40 + "!"})
        assert time.monotonic() - started < 5

    @pytest.mark.parametrize("reference", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "#/nowhere"])
    def test_cannot_make_us_fetch_anything(self, reference: str) -> None:
        schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
        check_arguments(tool(schema), {"a": 1})

    def test_that_refers_to_itself_is_let_through(self) -> None:
        schema = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}
        check_arguments(tool(schema), {"a": 1})

    def test_that_is_no_schema_is_let_through(self) -> None:
        check_arguments(tool({"type": 7, "properties": {"a": {"type": "no such type"}}}), {"a": 1})
