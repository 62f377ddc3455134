"""Schemas put together at random from what breaks things: whatever an upstream sends, a stub is one function.

Seeded, so a failure comes again. Ten thousand seeds were run when this was written; the few here keep it true.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.tree import list_dir
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.search.answer import search_tools
from codemode_server.search.documents import collections
from codemode_server.search.ranker_stack import RankerStack
from tests.catalog.checks import only_declares

Load = Callable[[str], tuple[list[tuple[Any, ...]], dict[str, Any]]]

SHARDS = [
    *('"""', "\\", "\n", '"', "'", "\x00", "\u202e", "\ud800", "#", "{", "}", "\r", "\x0c", "\u2028", "$", ""),
    *("string", "object", "array", "#/properties/a", "a", "b", "A", "from", "list", "Any", "None", "str", "tool"),
    *("__x", "a-b", "ﬁ", "𝓪", "x: int = 1"),
]
NAMED = ("properties", "$defs", "patternProperties")
LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
NESTED = ("items", "additionalProperties")
OTHERS = (
    *("type", "enum", "const", "default", "required", "description", "title", "minimum", "maxItems", "pattern"),
    *("format", "$ref", "nullable"),
)


class Chance:
    """Random values of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, shards: int = 3) -> str:
        return "".join(self._random.choice(SHARDS) for _ in range(self._random.randint(0, shards)))

    def value(self, depth: int) -> Any:
        kind = self._random.random()
        if depth <= 0 or kind < 0.4:
            return self._random.choice([None, True, 0, -1.5, float("nan"), 10**30, self.text()])
        if kind < 0.6:
            return [self.value(depth - 1) for _ in range(self._random.randint(0, 3))]
        return self.schema(depth - 1)

    def schema(self, depth: int) -> dict[str, Any]:
        return {key: self._keyword(key, depth) for key in self._random.sample((*NAMED, *LISTED, *NESTED, *OTHERS), 4)}

    def _keyword(self, key: str, depth: int) -> Any:
        if depth <= 0 or self._random.random() < 0.1:
            return self.value(depth - 1)
        if key in NAMED:
            return {self.text(2): self.schema(depth - 1) for _ in range(self._random.randint(0, 4))}
        if key in LISTED:
            return [self.schema(depth - 1) for _ in range(self._random.randint(0, 3))]
        if key in NESTED:
            return self.schema(depth - 1)
        if key == "type":
            return self._random.choice(["string", "object", "array", "integer", ["string", "null"], "null", "number"])
        if key == "$ref":
            return self._random.choice(["#", "#/properties/a", "#/$defs/b", "#/$defs/a"])
        return self.value(depth - 1)


@pytest.mark.parametrize("seed", range(0, 400, 20))
def test_a_stub_is_one_function_and_classes_and_nothing_else(seed: int, load: Load) -> None:
    for chance in map(Chance, range(seed, seed + 20)):
        schema = {
            "type": "object",
            **chance.schema(4),
            "properties": {chance.text(): chance.schema(4) for _ in range(4)},
        }
        definition = ToolDefinition(chance.text(), chance.text(6), chance.text(), schema, chance.schema(3))
        catalog = Catalog.build([UpstreamListing("s", UpstreamState.READY, (definition,))])
        tool = next(catalog.tools())
        assert only_declares(tool.stub.source)
        calls, names = load(tool.stub.source)
        assert [call[:2] for call in calls] == [("s", tool.name)]
        assert callable(names[tool.name])

        levels = RankerStack()
        levels.index(collections(catalog))
        shown = (search_tools(catalog, levels, "", "full").text, list_dir(catalog, "/servers/s").text)
        assert all(line.isprintable() for text in shown for line in text.split("\n"))
        assert catalog.version
