"""Signatures in results: short, and with all that a simple call needs."""

from __future__ import annotations

from typing import Any

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.model import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.signatures import brief_signature, result_fields

TEXT = {"type": "string"}


def tool(properties: dict[str, Any], required: tuple[str, ...] = (), output: dict[str, Any] | None = None) -> Tool:
    schema = {"properties": properties, "required": list(required)}
    definition = ToolDefinition("t", input_schema=schema, output_schema=output)
    return Catalog.build([UpstreamListing("s", UpstreamState.READY, (definition,))]).tool("s", "t")


def brief(found: Tool, *usual: str, characters: int = 60) -> str:
    return brief_signature(found, frozenset(usual), characters)


def test_a_short_signature_stays_whole_but_for_a_result_that_says_nothing() -> None:
    assert brief(tool({"a": TEXT, "b": {"type": "integer"}}, ("b",))) == "t(b: int, a: str = ...)"


def test_optional_parameters_are_left_out_where_there_is_no_room_and_required_ones_never() -> None:
    found = tool({f"parameter_{n}": TEXT for n in range(8)}, ("parameter_6", "parameter_7"))
    assert brief(found) == "t(parameter_6: str, parameter_7: str, parameter_0: str = ..., …)"
    assert brief(found, characters=10) == "t(parameter_6: str, parameter_7: str, …)"


def test_an_optional_parameter_that_most_tools_of_the_server_have_is_left_out_first() -> None:
    found = tool({"tenant": TEXT, "query": TEXT, "retries": TEXT}, ("tenant",))
    assert brief(found, "tenant", "retries") == "t(tenant: str, query: str = ..., …)"


def test_a_long_type_is_left_out_and_its_parameter_is_not() -> None:
    kinds = {"enum": [f"kind number {n}" for n in range(20)]}
    assert brief(tool({"kind": kinds, "other": kinds}, ("kind",))) == "t(kind, other=...)"


def test_however_many_parameters_are_required_it_is_bounded() -> None:
    names = [f"parameter_{n}" for n in range(300)]
    found = brief(tool(dict.fromkeys(names, TEXT), tuple(names)))
    assert len(found) < 700
    assert found.endswith(", …)")


def test_of_a_result_its_keys_are_told() -> None:
    issue = {"type": "object", "properties": {"number": {"type": "integer"}, "from": TEXT, "labels": {"type": "array"}}}
    found = tool({}, output={"type": "object", "properties": {"issue": issue, "note": TEXT}})
    assert brief(found) == "t() -> TResult"
    assert result_fields(found) == "keys: issue, note"
    assert result_fields(tool({}, output=issue)) == "keys: number, from, labels"
    assert result_fields(tool({})) == ""


def test_many_keys_are_told_in_part() -> None:
    wide = tool({}, output={"type": "object", "properties": {f"key_number_{n}": TEXT for n in range(50)}})
    assert result_fields(wide) == (
        "keys: key_number_0, key_number_1, key_number_2, key_number_3, key_number_4, key_number_5, key_number_6, …"
    )
