"""Tools as an upstream lists them → stubs: valid Python that declares one function and does nothing else."""

from __future__ import annotations

import ast
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.untrusted import docstring, one_line, prose
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.upstreams.answers import Answer
from codemode_server.upstreams.listings import list_tools
from tests.catalog.checks import only_declares
from tests.fuzz.strategies import containers, names, scalars, texts, values

pytestmark = pytest.mark.slow

MAX_SOURCE_CHARACTERS = 2_000_000
kinds = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "x"])
references = st.one_of(st.sampled_from(["#", "#/properties/a", "#/$defs/a", "#/$defs/a/items"]), texts)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(names, inner, max_size=4)
    listed = st.lists(inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(kinds, st.lists(kinds, max_size=3), values),
            "properties": st.one_of(named, values),
            "$defs": named,
            "patternProperties": named,
            "required": st.one_of(st.lists(names, max_size=3), values),
            "items": st.one_of(inner, listed),
            "prefixItems": listed,
            "additionalProperties": st.one_of(inner, st.booleans()),
            "anyOf": listed,
            "oneOf": listed,
            "allOf": listed,
            "enum": st.one_of(st.lists(scalars, max_size=5), values),
            "const": values,
            "default": values,
            "$ref": references,
            "description": st.one_of(texts, values),
            "title": texts,
            "pattern": texts,
            "format": texts,
            "minimum": scalars,
            "maxItems": scalars,
        },
    )


schemas = st.recursive(st.one_of(values, st.booleans()), _schemas, max_leaves=12)
tools = st.builds(
    lambda name, description, title, schema, output: ToolDefinition(name, description, title, schema, output),
    st.one_of(names, texts),
    texts,
    st.none() | texts,
    _schemas(schemas),
    st.none() | schemas,
)
TYPING = {"Any", "Literal", "NotRequired", "TypedDict", "File", "tool", "str", "int", "float", "bool", "list", "dict"}


def only_types_and_literals(source: str) -> bool:
    """Whether its module calls nothing but `tool` and `TypedDict`, and reads no name but those of types."""
    module = ast.parse(source)
    classes = {node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef)}
    classes |= {node.id for node in ast.walk(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and (
            not isinstance(node.func, ast.Name) or node.func.id not in ("tool", "TypedDict")
        ):
            return False
        if isinstance(node, ast.Name) and node.id not in TYPING | classes:
            return False
        if isinstance(node, ast.Attribute | ast.Lambda | ast.Await | ast.Yield | ast.JoinedStr | ast.Import):
            return False
    return True


KEYS = ("my-key", "x: int = 1", "from", '"""', "str")
awkward = {"type": "object", "properties": {key: {"type": "string"} for key in KEYS}}


@given(st.lists(tools, min_size=1, max_size=3), texts)
@example([ToolDefinition("t", "", None, {"type": "object", "properties": {"a": awkward}}, awkward)], "s")
def test_a_stub_is_valid_python_and_declares_one_function(listed: list[ToolDefinition], server: str) -> None:
    catalog = Catalog.build([UpstreamListing(server, UpstreamState.READY, tuple(listed))])
    found = list(catalog.tools())
    for tool in found:
        source = tool.stub.source
        assert len(source) <= MAX_SOURCE_CHARACTERS
        assert only_declares(source)
        assert only_types_and_literals(source)
        functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        assert functions == [tool.name]
        source.encode()
    assert len({tool.name for tool in found}) == len(found)


@given(st.one_of(texts, st.lists(texts).map("\n".join)), st.sampled_from(["", "    "]), st.integers(1, 200))
@example('"', "", 10)
@example('""" + __import__("os").system("x") + """', "", 200)
@example("\\", "    ", 10)
def test_nothing_breaks_out_of_a_docstring(text: str, indent: str, limit: int) -> None:
    for said in (prose(text, limit), one_line(text, limit)):
        if said.strip():
            module = ast.parse(f"def f():\n    {docstring(said, indent).lstrip()}\n")
            (function,) = module.body
            assert isinstance(function, ast.FunctionDef)
            (only,) = function.body
            assert isinstance(only, ast.Expr)
            assert isinstance(only.value, ast.Constant)
            if "\n" not in said:
                assert only.value.value == said


listed_tools = st.fixed_dictionaries(
    {"name": texts},
    optional={
        **dict.fromkeys(("inputSchema", "outputSchema"), schemas),
        **dict.fromkeys(("description", "annotations", "title", "_meta"), values),
    },
)
listings = st.one_of(
    st.fixed_dictionaries(
        {"tools": st.lists(st.one_of(values, listed_tools), max_size=4)}, optional={"nextCursor": values}
    ),
    containers(values).map(lambda it: it if isinstance(it, dict) else {"tools": it}),
)


@given(st.lists(listings, min_size=1, max_size=3))
def test_a_listing_costs_only_the_tools_that_are_wrong(pages: list[dict[str, Any]]) -> None:
    left = list(pages)

    class Pages:
        async def request(self, method: str, params: dict[str, Any]) -> Answer:
            return Answer(left.pop(0) if left else {"tools": []})

    async def read() -> None:
        found = await list_tools(Pages(), refuse_schema=lambda schema: None)
        assert all(problem.isprintable() for problem in found.problems)
        assert all(isinstance(tool.name, str) for tool in found.tools)
        catalog = Catalog.build([UpstreamListing("s", UpstreamState.READY, found.tools)])
        for tool in catalog.tools():
            ast.parse(tool.stub.source)

    anyio.run(read)
