"""Arguments are written as the schema of the tool takes them, nested ones too, and stay as they came where it says
nothing; `forms` are what the guest says of a text that stands for a Python value."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from codemode_server.calls.fitted_arguments import fitted_arguments
from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.domain.errors import InvalidArguments
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState

TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
EITHER = {"anyOf": [TEXT, NUMBER]}
LINE = {"type": "object", "properties": {"sku": TEXT, "count": INTEGER, "price": NUMBER}, "required": ["sku"]}


def tool(schema: Any, **root: Any) -> Tool:
    whole = {"type": "object", "properties": {"value": schema}, **root}
    listing = UpstreamListing("shop", UpstreamState.READY, (ToolDefinition("order", input_schema=whole),))
    return Catalog.build([listing]).tool("shop", "order")


@pytest.mark.parametrize(
    ("schema", "given", "sent"),
    [
        *(
            (schema, {"value": None}, {})
            for schema in (TEXT, {"enum": ["a"]}, {"type": "array", "default": None}, LINE)
        ),
        *(
            (schema, {"value": None}, {"value": None})
            for schema in (
                {},
                True,
                {"type": ["integer", "null"]},
                {"anyOf": [TEXT, {"type": "null"}]},
                {**TEXT, "nullable": True},
                {"enum": ["a", None]},
                {"$ref": "https://example.org/unknown.json"},
            )
        ),
        (TEXT, {"other": None}, {"other": None}),
        (LINE, {"value": {"sku": "a", "count": None}}, {"value": {"sku": "a"}}),
        (LINE, {"value": {"sku": None}}, {"value": {"sku": None}}),
        ({"items": LINE}, {"value": [{"sku": "a", "count": 2.0, "price": 3.0}]}, None),
        ({"items": TEXT}, {"value": ["a", None]}, {"value": ["a", None]}),
        ({"additionalProperties": INTEGER}, {"value": {"a": 1.0, "b": None}}, {"value": {"a": 1}}),
        (
            {"anyOf": [LINE, {"type": "null"}]},
            {"value": {"sku": "a", "count": 4.0}},
            {"value": {"sku": "a", "count": 4}},
        ),
        (INTEGER, {"value": 3.0}, {"value": 3}),
        (INTEGER, {"value": 3.5}, {"value": 3.5}),
        (NUMBER, {"value": 3.0}, {"value": 3.0}),
        ({}, {"value": 3.0}, {"value": 3.0}),
        ({"prefixItems": [INTEGER, NUMBER]}, {"value": [1.0, 1.0]}, {"value": [1, 1.0]}),
    ],
)
def test_nulls_and_whole_floats_are_written_as_the_schema_takes_them(schema: Any, given: Any, sent: Any) -> None:
    sent = sent if sent is not None else {"value": [{"sku": "a", "count": 2, "price": 3.0}]}
    found = fitted_arguments(tool(schema), given)
    assert repr(found) == repr(sent)


def test_a_null_for_a_required_argument_stays() -> None:
    assert fitted_arguments(tool(TEXT, required=["value"]), {"value": None}) == {"value": None}


DECIMAL = "1.50", {"number": 1.5}
WHOLE = "2", {"number": 2}
HOUR = "1:00:00", {"number": 3600, "duration": "PT3600S"}
MOMENT = "2026-01-02T03:04:05", {"date": "2026-01-02"}
DAY = "2026-01-02", {"date-time": "2026-01-02T00:00:00"}
UMLAUTS, CONTROLS, PICTURE = (
    (base64.b64encode(it).decode(), {"base64": True}) for it in ("äöü\n".encode(), b"\0a", b"\x89P")
)


@pytest.mark.parametrize(
    ("schema", "value", "sent"),
    [
        *((schema, DECIMAL, "1.50") for schema in (TEXT, EITHER, {}, INTEGER, {"type": "boolean"})),
        *((schema, DECIMAL, 1.5) for schema in (NUMBER, {"type": ["number", "null"]}, {"anyOf": [INTEGER, NUMBER]})),
        *((schema, WHOLE, 2) for schema in (INTEGER, NUMBER)),
        *((schema, HOUR, 3600) for schema in (INTEGER, NUMBER)),
        (TEXT, HOUR, "1:00:00"),
        ({**TEXT, "format": "duration"}, HOUR, "PT3600S"),
        ({**TEXT, "format": "date"}, MOMENT, "2026-01-02"),
        ({**TEXT, "format": "date-time"}, DAY, "2026-01-02T00:00:00"),
        ({"anyOf": [{**TEXT, "format": name} for name in ("date", "date-time")]}, MOMENT, MOMENT[0]),
        *(
            (schema, UMLAUTS, "äöü\n")
            for schema in (TEXT, {"type": ["string", "null"]}, {**TEXT, "contentMediaType": "text/plain"})
        ),
        *(
            (schema, UMLAUTS, UMLAUTS[0])
            for schema in (
                {},
                {**TEXT, "contentEncoding": "base64"},
                {**TEXT, "format": "byte"},
                {"description": "The file, Base64-encoded", "anyOf": [TEXT, {"type": "null"}]},
            )
        ),
        *((TEXT, it, it[0]) for it in (CONTROLS, PICTURE)),
    ],
)
def test_a_python_value_has_the_form_that_the_schema_takes(schema: Any, value: Any, sent: Any) -> None:
    text, forms = value
    assert fitted_arguments(tool(schema), {"value": text}, [(("value",), forms)]) == {"value": sent}
    assert fitted_arguments(tool({"items": schema}), {"value": ["", text]}, [(("value", 1), forms)]) == {
        "value": ["", sent]
    }
    assert fitted_arguments(tool(schema), {"value": text}) == {"value": text}, "a text of the program stays one"


def test_bytes_that_are_no_text_are_refused_where_the_name_means_text() -> None:
    """A server would write the base64 into the file."""
    known: dict[str, Any] = {
        "type": "object",
        "properties": {"content": TEXT, "image": TEXT, "files": {"type": "array"}},
    }
    known["properties"]["files"]["items"] = {"type": "object", "properties": {"content": TEXT}}
    listing = UpstreamListing("shop", UpstreamState.READY, (ToolDefinition("order", input_schema=known),))
    order = Catalog.build([listing]).tool("shop", "order")
    (text, forms), (plain, _) = PICTURE, UMLAUTS
    for given, path in (({"content": text}, ("content",)), ({"files": [{"content": text}]}, ("files", 0, "content"))):
        with pytest.raises(InvalidArguments, match="'content' takes text, and these bytes are none"):
            fitted_arguments(order, given, [(path, forms)])
        assert fitted_arguments(order, given) == given, "a text of the program"
    assert fitted_arguments(order, {"image": text}, [(("image",), forms)]) == {"image": text}
    assert fitted_arguments(order, {"content": plain}, [(("content",), forms)]) == {"content": "äöü\n"}


def test_bytes_stay_base64_for_a_parameter_whose_name_says_so() -> None:
    schema = {"type": "object", "properties": {"data_base64": TEXT}}
    listing = UpstreamListing("shop", UpstreamState.READY, (ToolDefinition("order", input_schema=schema),))
    text, forms = UMLAUTS
    sent = fitted_arguments(
        Catalog.build([listing]).tool("shop", "order"), {"data_base64": text}, [(("data_base64",), forms)]
    )
    assert sent == {"data_base64": text}
