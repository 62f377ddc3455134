"""Stubs: what a model reads, a type checker checks and the sandbox executes, from schemas as servers send them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.servers_package import SERVERS_PACKAGE
from codemode_server.domain.tools import Effect, ToolDefinition, UpstreamListing, UpstreamState

Load = Callable[[str], tuple[list[tuple[Any, ...]], dict[str, Any]]]


def stub(
    schema: object,
    *,
    name: str = "create_issue",
    description: str = "",
    output: object = None,
    effect: Effect = Effect.UNKNOWN,
    title: str | None = None,
) -> str:
    """The stub of the one tool of a server `github`; schemas may be anything, as upstreams send anything."""
    definition = ToolDefinition(name, description, title, schema, output, effect)  # type: ignore[arg-type]
    catalog = Catalog.build([UpstreamListing("github", UpstreamState.READY, (definition,))])
    return next(catalog.tools()).stub.source


def signature(properties: dict[str, Any], required: list[str] | None = None, **root: Any) -> str:
    """What stands between the parentheses of the function."""
    source = stub({"type": "object", "properties": properties, "required": required or [], **root}, name="t")
    line = next(line for line in source.splitlines() if line.startswith("def "))
    return line.removeprefix("def t(").removesuffix(") -> Any:")


def when(value: str, then: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {"a": {"const": value}}}, "then": then}


NEEDS_Q = {"properties": {"q": {"type": "integer"}}, "required": ["q"]}
TAGS = {"type": "array", "items": {"type": "string"}, "enum": ["a", "b"]}


class TestTheWholeText:
    def test_of_a_tool_with_nested_objects_renamed_parameters_and_defaults(self) -> None:
        source = stub(
            {
                "type": "object",
                "required": ["owner", "title"],
                "properties": {
                    "owner": {"type": "string", "description": "Repository owner"},
                    "auth-method": {"type": "string", "description": "How to sign in"},
                    "title": {"type": "string"},
                    "from": {"type": "string", "format": "date-time", "description": "Not before"},
                    "labels": {
                        "type": "array",
                        "maxItems": 10,
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string", "description": "Name of the label"},
                                "color": {"type": "string", "pattern": "^[0-9a-f]{6}$"},
                            },
                        },
                    },
                    "state": {"type": "string", "enum": ["open", "closed"], "default": "open"},
                    "milestone": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
                },
            },
            description="Create an issue in a repository.",
            effect=Effect.WRITES,
        )
        assert source == (
            '"""writes"""\n'
            "from servers import tool\n"
            "from typing import Any, Literal, NotRequired, TypedDict\n"
            "\n"
            "class Label(TypedDict):\n"
            "    name: str  # Name of the label\n"
            "    color: NotRequired[str]  # [pattern ^[0-9a-f]{6}$]\n"
            "\n"
            '@tool("github", "create_issue", {"auth_method": "auth-method", "from_": "from"})\n'
            "def create_issue(owner: str, title: str, auth_method: str = ..., from_: str = ..., "
            'labels: list[Label] = ..., state: Literal["open", "closed"] = "open", '
            "milestone: int | None = None) -> Any:\n"
            '    """Create an issue in a repository.\n'
            "\n"
            "    owner: Repository owner\n"
            "    auth_method: How to sign in\n"
            '    from_ ("from"): Not before [date-time]\n'
            "    labels: [at most 10 items]\n"
            "    milestone: [>= 1]\n"
            '    """\n'
        )


class TestParameters:
    def test_required_ones_come_first_and_each_group_keeps_the_order_of_the_schema(self) -> None:
        properties = {name: {"type": "string"} for name in "dcba"}
        assert signature(properties, ["a", "c"]) == "c: str, a: str, d: str = ..., b: str = ..."

    def test_a_tool_that_takes_anything_says_so(self) -> None:
        assert signature({}, additionalProperties=True) == "**arguments: Any"

    @pytest.mark.parametrize(
        ("root", "declared"),
        [
            ({"additionalProperties": {"type": "string"}}, "a: str = ..., **arguments: Any"),
            ({"patternProperties": {"^x-": {}}}, "a: str = ..., **arguments: Any"),
            ({"additionalProperties": False}, "a: str = ..."),
            ({}, "a: str = ..."),
        ],
    )
    def test_other_arguments_are_shown_where_the_schema_allows_them(self, root: dict[str, Any], declared: str) -> None:
        assert signature({"a": {"type": "string"}}, **root) == declared
        renamed = signature({"arguments": {"type": "string"}}, **root)
        assert renamed == declared.replace("**arguments", "**more_arguments").replace("a: str", "arguments: str")

    @pytest.mark.parametrize("is_open", [True, False])
    def test_parameters_may_have_the_names_of_the_rest(self, is_open: bool) -> None:
        names = ["arguments", "more_arguments", "_arguments"]
        declared = signature({name: {"type": "integer"} for name in names}, names, additionalProperties=is_open)
        assert declared.endswith("**more_more_arguments: Any") is is_open

    @pytest.mark.parametrize(
        ("schema", "declared", "forms"),
        [
            (
                {
                    "properties": {"op": {"type": "string", "description": "What to do"}, "id": {"type": "integer"}},
                    "required": ["op"],
                    "oneOf": [
                        {"properties": {"op": {"const": "move"}, "to": {"type": "string"}}, "required": ["to"]},
                        {"properties": {"op": {"enum": ["drop"]}, "force": {"type": "boolean"}}},
                    ],
                },
                'op: Literal["move", "drop"], id: int = ..., to: str = ..., force: bool = ...',
                ['op="move", to', 'op="drop", force?'],
            ),
            (
                {"anyOf": [{"$ref": "#/$defs/Mail"}, {"$ref": "#/$defs/Call"}]},
                'via: Literal["mail", "call"], to: str | int, cc: list[str] = ...',
                ['via="mail", to, cc?', 'via="call", to'],
            ),
            (
                {
                    "properties": {"q": {"type": "string"}, "id": {}},
                    "anyOf": [{"required": ["q"]}, {"required": ["id"]}],
                },
                "q: str = ..., id: Any = ...",
                ["q", "id"],
            ),
            (
                {
                    "properties": {"n": {"type": "integer"}},
                    "allOf": [
                        {"oneOf": [{"properties": {"x": {}}, "required": ["x"]}, {"properties": {"y": {}}}]},
                        {"if": {"required": ["n"]}, "then": {"properties": {"unit": {"type": "string"}}}},
                        {"$ref": "#/$defs/Call"},
                    ],
                },
                'via: Literal["call"], to: int, n: int = ..., x: Any = ..., y: Any = ..., unit: str = ...',
                ["x", "y?", "", "when n: unit?"],
            ),
            (
                {
                    "properties": {"a": {"enum": ["x", "y"]}, "speed": {"type": "string"}},
                    "allOf": [when("x", {"properties": {"p": {}, "speed": {"const": "low"}}}), when("y", NEEDS_Q)],
                },
                'a: Literal["x", "y"] = ..., speed: str = ..., p: Any = ..., q: int = ...',
                ['when a="x": speed="low", p?', 'when a="y": q'],
            ),
            (
                when("x", {"required": ["p"]}) | {"else": when("y", NEEDS_Q) | {"else": {"properties": {"s": {}}}}},
                "q: int = ..., s: Any = ..., a: Any = ..., p: Any = ...",
                ['when a="x": p', 'when a="y": q; else: s?'],
            ),
            (
                {"properties": {"a": {}}, "dependentRequired": {"a": ["c"], "d": ["e"]}},
                "a: Any = ..., c: Any = ..., d: Any = ..., e: Any = ...",
                ["when a: c", "when d: e"],
            ),
            ({"properties": {"tags": TAGS}}, 'tags: list[Literal["a", "b"]] = ...', []),
        ],
    )
    def test_every_branch_of_a_union_is_shown(self, schema: dict[str, Any], declared: str, forms: list[str]) -> None:
        mail = {
            "via": {"const": "mail"},
            "to": {"type": "string"},
            "cc": {"type": "array", "items": {"type": "string"}},
        }
        call = {"via": {"const": "call"}, "to": {"type": "integer"}}
        defs = {
            "Mail": {"type": "object", "properties": mail, "required": ["via", "to"]},
            "Call": {"type": "object", "properties": call, "required": ["via", "to"], "additionalProperties": False},
        }
        source = stub({"type": "object", **schema, "$defs": defs}, name="t")
        assert f"def t({declared}) -> Any:" in source
        lines = [line.strip(' "') for line in source.partition(") -> Any:")[2].splitlines()]
        assert "\n".join(forms) in "\n".join(lines)

    @pytest.mark.parametrize(
        ("schema", "declared"),
        [
            ({"type": "integer", "default": 30}, "a: int = 30"),
            ({"type": "integer", "default": 30.0}, "a: int = 30"),
            ({"type": "number", "default": 1}, "a: float = 1"),
            ({"type": "boolean", "default": False}, "a: bool = False"),
            ({"type": "string", "default": "it's"}, 'a: str = "it\'s"'),
            ({"type": ["string", "null"], "default": None}, "a: str | None = None"),
            ({"type": "string", "default": None}, "a: str = ..."),
            ({"type": "integer", "default": "30"}, "a: int = ..."),
            ({"type": "integer", "default": True}, "a: int = ..."),
            ({"enum": ["x"], "default": "y"}, 'a: Literal["x"] = ...'),
            ({"type": "array", "default": []}, "a: list[Any] = ..."),
            ({"type": "number", "default": float("inf")}, "a: float = ..."),
            ({"type": "string", "default": "x" * 500}, "a: str = ..."),
        ],
    )
    def test_a_default_stands_in_the_signature_where_it_is_simple_and_of_the_type(
        self, schema: dict[str, Any], declared: str
    ) -> None:
        assert signature({"a": schema}) == declared


class TestTypes:
    @pytest.mark.parametrize(
        ("schema", "type_"),
        [
            ({}, "Any"),
            (True, "Any"),
            (False, "Any"),
            (None, "Any"),
            ({"type": "String"}, "str"),
            ({"type": "file"}, "Any"),
            ({"type": "null"}, "None"),
            ({"type": "integer"}, "int"),
            ({"type": ["number", "integer", "null"]}, "float | None"),
            ({"type": "string", "nullable": True}, "str | None"),
            ({"type": "string", "format": "uri"}, "str"),
            ({"type": "array"}, "list[Any]"),
            ({"type": "array", "items": {"type": "string"}}, "list[str]"),
            ({"items": {"enum": ["a", "b"]}}, 'list[Literal["a", "b"]]'),
            (
                {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
                "list[int | str]",
            ),
            ({"type": "object"}, "dict[str, Any]"),
            ({"type": "object", "properties": {}}, "dict[str, Any]"),
            ({"additionalProperties": {"type": "integer"}}, "dict[str, int]"),
            ({"type": "object", "patternProperties": {"^x": {"type": "boolean"}}}, "dict[str, bool]"),
            ({"enum": ["a", 1, True, None]}, 'Literal["a", 1, True] | None'),
            ({"const": "page"}, 'Literal["page"]'),
            ({"enum": [1.5, 2.5]}, "float"),
            ({"enum": [f"v{n}" for n in range(500)]}, "str"),
            ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, "str | list[str]"),
            ({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}, 'Literal["a", "b"] | None'),
            ({"anyOf": [{"type": "string"}, {}]}, "Any"),
            ({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, "str"),
            ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "str"),
            ({"$ref": "#/$defs/Color"}, 'Literal["red"]'),
            ({"$ref": "#/definitions/Size"}, "int"),
            ({"type": "object", "oneOf": [{"properties": {"k": {"const": one}}} for one in "ab"]}, "A | A2"),
            ({"$ref": "#/properties/other", "description": "The same"}, "bool"),
            ({"$ref": "https://example.com/schema"}, "Any"),
            ({"$ref": "#/$defs/Self"}, "Any"),
            ({"$ref": "#/$defs/Json"}, "str | list[Any]"),
            ({"type": ["string", 3, {}]}, "str"),
            ({"type": {}, "items": 7}, "list[Any]"),
        ],
    )
    def test_a_parameter_has_the_type_of_its_schema(self, schema: object, type_: str) -> None:
        root = {
            "$defs": {
                "Color": {"enum": ["red"]},
                "Self": {"$ref": "#/$defs/Self"},
                "Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]},
            },
            "definitions": {"Size": {"type": "integer"}},
        }
        found = signature({"a": schema, "other": {"type": "boolean"}}, ["a"], **root)
        assert found == f"a: {type_}, other: bool = ..."

    @pytest.mark.parametrize(
        ("output", "type_"),
        [
            (None, "Any"),
            ({"type": "object"}, "dict[str, Any]"),
            ({"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}, "Any"),
            (
                {"type": "object", "properties": {"result": {"type": "array", "items": {"type": "integer"}}}},
                "list[int]",
            ),
            ({"type": "object", "properties": {"result": {}, "total": {"type": "integer"}}}, "TResult"),
        ],
    )
    def test_of_a_result_a_lone_result_key_is_unwrapped(self, output: object, type_: str) -> None:
        assert f"def t() -> {type_}:" in stub({"additionalProperties": False}, name="t", output=output)


class TestHostileUpstreams:
    def test_a_huge_schema_is_cut_not_refused(self, load: Load) -> None:
        inner = {f"q{n}": {"type": "object", "properties": {"z": {"const": n}}} for n in range(300)}
        properties = {f"p{n}": {"type": "object", "properties": inner, "description": "d" * 5_000} for n in range(300)}
        source = stub({"properties": properties}, name="t", description="x" * 10**6)
        assert "… (992,000 more characters)" in source
        assert "more parameters are described)" in source
        assert len(inspect.signature(load(source)[1]["t"]).parameters) == 300


def test_the_servers_package_says_that_its_functions_run_in_programs_only() -> None:
    names: dict[str, Any] = {}
    exec(SERVERS_PACKAGE, names)
    decorated = names["tool"]("github", "get_me", {})(lambda: None)
    with pytest.raises(RuntimeError, match=r"servers\.github\.get_me runs inside execute_code only"):
        decorated()
    assert issubclass(names["ToolError"], Exception)
