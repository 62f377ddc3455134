"""Values in place of tokens have the JSON type that the schema of the tool has there."""

from __future__ import annotations

import time
from typing import Any

import pytest

from codemode_server.calls.targets import PromptTarget, ToolTarget
from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.privacy_tokens import KnownToken
from codemode_server.domain.resources import PromptDefinition
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.features.privacy.release import arguments_to_send

KNOWN = {
    "<PHONE_1>": KnownToken("<PHONE_1>", "phone", "4930901820", is_number=True),
    "<PHONE_2>": KnownToken("<PHONE_2>", "phone", "4930901821"),
    "<PHONE_3>": KnownToken("<PHONE_3>", "phone", "+49 30 901822"),
    "<PHONE_4>": KnownToken("<PHONE_4>", "phone", "004930901823"),
    "<AMOUNT_1>": KnownToken("<AMOUNT_1>", "amount", "90182.25"),
    "<EMAIL_1>": KnownToken("<EMAIL_1>", "email", "a<PHONE_1>@example.org"),
    "<EMAIL_2>": KnownToken("<EMAIL_2>", "email", None),
}
TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def target(schema: dict[str, Any]) -> ToolTarget:
    listing = UpstreamListing("mail", UpstreamState.READY, (ToolDefinition("send", input_schema=schema),))
    catalog = Catalog.build([listing])
    return ToolTarget(catalog.server("mail"), catalog.tool("mail", "send"))


def sent(schema: Any, value: Any, **root: Any) -> Any:
    whole = {"type": "object", "properties": {"value": schema}, **root}
    return arguments_to_send(target(whole), {"value": value}, KNOWN)["value"]


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
        {"type": "string", "anyOf": [{"format": "email"}, {"format": "phone"}]},
        {"allOf": [TEXT]},
        {"$ref": "#/$defs/text"},
    ],
)
def test_a_text_is_sent_where_the_schema_takes_texts_and_no_numbers(schema: dict[str, Any]) -> None:
    assert sent(schema, "<PHONE_1>", **{"$defs": {"text": TEXT}}) == "4930901820"
    assert sent(schema, "<PHONE_2>") == "4930901821", "the control"


def test_a_number_is_sent_where_the_schema_takes_numbers_and_no_texts() -> None:
    for schema in (INTEGER, NUMBER, {"anyOf": [INTEGER, {"type": "null"}]}):
        assert sent(schema, "<PHONE_2>") == 4930901821
        assert sent(schema, "<PHONE_1>") == 4930901820, "the control"
    assert sent(NUMBER, "<AMOUNT_1>") == 90182.25


def test_what_is_no_number_as_json_writes_it_stays_a_text() -> None:
    assert sent(INTEGER, "<PHONE_3>") == "+49 30 901822"
    assert sent(INTEGER, "<PHONE_4>") == "004930901823"
    assert sent(INTEGER, "<AMOUNT_1>") == "90182.25"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"anyOf": [TEXT, INTEGER]},
        {"type": ["string", "number"]},
        *({"anyOf": [kind, other]} for kind in (TEXT, INTEGER) for other in ({}, True, {"enum": [1, "a"]})),
    ],
)
def test_a_value_has_the_type_that_it_had_at_first_where_the_schema_allows_both(schema: Any) -> None:
    assert [sent(schema, token) for token in ("<PHONE_1>", "<PHONE_2>")] == [4930901820, "4930901821"]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "array", "items": TEXT}, ["<PHONE_1>", "x"], ["4930901820", "x"]),
        ({"prefixItems": [TEXT, INTEGER]}, ["<PHONE_1>", "<PHONE_2>"], ["4930901820", 4930901821]),
        ({"properties": {"a": TEXT}}, {"a": "<PHONE_1>", "b": "<PHONE_1>"}, {"a": "4930901820", "b": 4930901820}),
        ({"additionalProperties": TEXT}, {"<PHONE_1>": "<PHONE_1>"}, {"4930901820": "4930901820"}),
        ({"oneOf": [{"properties": {"a": TEXT}}, {"type": "null"}]}, {"a": "<PHONE_1>"}, {"a": "4930901820"}),
        (TEXT, "call <PHONE_1>", "call 4930901820"),
        (TEXT, {"a": "<PHONE_1>"}, {"a": 4930901820}),
    ],
)
def test_schemas_are_followed_into_objects_and_arrays(schema: dict[str, Any], value: Any, expected: Any) -> None:
    assert sent(schema, value) == expected


def test_a_token_in_a_value_and_one_that_was_forgotten_stay() -> None:
    assert sent({"items": TEXT}, ["<EMAIL_1>", "<EMAIL_2>"]) == ["a<PHONE_1>@example.org", "<EMAIL_2>"]


def test_arguments_of_prompts_are_texts() -> None:
    catalog = Catalog.build([UpstreamListing("mail", UpstreamState.READY, ())])
    prompt = PromptTarget(catalog.server("mail"), PromptDefinition("greet"))
    assert arguments_to_send(prompt, {"phone": "<PHONE_1>"}, KNOWN) == {"phone": "4930901820"}


def test_a_hostile_schema_costs_little_and_allows_any_type() -> None:
    again = {"$ref": "#/$defs/again"}
    defs = {"again": {"anyOf": [again] * 30, "properties": {"a": again}, "items": again}}
    value: Any = "<PHONE_1>"
    for _ in range(60):
        value = {"a": [value]}
    began = time.thread_time()
    assert "4930901820" in str(sent(again, value, **{"$defs": defs}))
    assert time.thread_time() - began < 1
