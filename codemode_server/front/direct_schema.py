"""Makes the input schema of a direct tool safe for hosts and models: bounded, masked, and without what they refuse.

Models' interfaces want an object at the top, with names of arguments that they allow, and no `anyOf` beside it; hosts
must not follow references to elsewhere. What is dropped here is still checked by the gateway before a call is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from typing import Any

from codemode_server.catalog.untrusted import prose
from codemode_server.redaction import Redactor

MAX_CHARACTERS = 12_000
"""Maximum length of a schema as JSON; the largest of 1,469 real tools has 24,000, half of it descriptions."""
MAX_DEPTH = 24
_MAX_NODES = 4_000
_TOO_COMPLEX = "its input schema has too many parts, or is nested too deeply"
_DESCRIPTION_CHARACTERS = (600, 120, 0)
"""Lengths to which descriptions within a schema are cut, until it is short enough."""
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_SCHEMAS = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
"""Keywords whose value is a schema; `items` may also be a list of them."""
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_VALUES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("const", "default", "nullable", "deprecated"), object),
    **dict.fromkeys(("format", "pattern"), str),
    **dict.fromkeys(("enum", "examples", "required"), list),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), (int, float)),
    **dict.fromkeys(("minProperties", "maxProperties"), (int, float)),
    "type": (str, list),
    "uniqueItems": bool,
}
"""Keywords whose value is copied, and its kind: models' interfaces refuse a schema in which one is of another kind. All
others are dropped: names of dialects, `$id`, and `x-mcp-header`, with which an upstream could have the host put
arguments into HTTP headers."""
_TOP = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"})
"""Keywords that models' interfaces refuse at the top."""


class UnfitSchema(ValueError):
    """Raised for an input schema that can't be shown to models; the message says why."""


def safe_schema(schema: object, redactor: Redactor) -> dict[str, Any]:
    """The schema as a host may have it. Raises `UnfitSchema`: models' interfaces would refuse it, and with it all tools
    of the request."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    made = _copied(schema, redactor)
    top = {key: value for key, value in made.items() if key not in _TOP}
    properties = top.get("properties")
    top = {**top, "type": "object", "properties": properties if isinstance(properties, dict) else {}}
    for name in top["properties"]:
        if not _ARGUMENT.fullmatch(name):
            raise UnfitSchema(f"models take no argument with the name {name[:80]!r}")
    return top


def _copied(schema: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    targets = _targets(schema)
    for length in _DESCRIPTION_CHARACTERS:
        made = _Copy(redactor, length, targets).schema(schema, 0)
        if len(json.dumps(made, ensure_ascii=False)) <= MAX_CHARACTERS:
            return made
    raise UnfitSchema(f"its input schema has more than {MAX_CHARACTERS:,} characters")


class _Copy:
    def __init__(self, redactor: Redactor, description_characters: int, targets: Set[str]) -> None:
        self._redactor = redactor
        self._targets = targets
        self._length = description_characters
        self._nodes = _MAX_NODES

    def schema(self, schema: object, depth: int) -> dict[str, Any]:
        """The copy of a schema; `{}`, which allows anything, if it is nested too deep."""
        self._count()
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return {}
        made: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _SCHEMAS:
                made[key] = self._part(value, depth)
            elif key in _LISTS and isinstance(value, list):
                made[key] = [self._part(part, depth) for part in value]
            elif key in _MAPS and isinstance(value, dict):
                made[key] = {self._redactor.text(str(name)): self._part(part, depth) for name, part in value.items()}
            elif key in _VALUES and _is_valid(key, value):
                made[key] = self._value(value, depth)
            elif key == "$ref" and isinstance(value, str) and value in self._targets:
                made[key] = self._redactor.text(value)
            elif key == "description" and self._length and (text := self._text(value)):
                made[key] = text
        return made

    def _count(self) -> None:
        self._nodes -= 1
        if self._nodes < 0:
            raise UnfitSchema(_TOO_COMPLEX)

    def _part(self, part: object, depth: int) -> Any:
        if isinstance(part, bool):
            return part
        if isinstance(part, list):  # `items` of older dialects
            return [self.schema(each, depth + 1) for each in part]
        return self.schema(part, depth + 1)

    def _text(self, value: object) -> str:
        return prose(self._redactor.head(value, 4 * self._length), self._length) if isinstance(value, str) else ""

    def _value(self, value: Any, depth: int) -> Any:
        self._count()
        if depth > MAX_DEPTH:
            raise UnfitSchema(_TOO_COMPLEX)
        if isinstance(value, str):
            return self._redactor.text(value)
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._redactor.text(str(key)): self._value(item, depth + 1) for key, item in value.items()}
        return value


def _is_valid(key: str, value: Any) -> bool:
    kind = _VALUES[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind == (int, float)):
        return False
    if key == "type":
        kinds = value if isinstance(value, list) else [value]
        return bool(kinds) and all(isinstance(kind, str) and kind in _TYPES for kind in kinds)
    if key == "required" and isinstance(value, list):
        return all(isinstance(name, str) for name in value)
    return key != "enum" or bool(value)


def _targets(schema: dict[str, Any]) -> frozenset[str]:
    """The references that lead somewhere: hosts refuse the whole schema for one that does not."""
    named: list[tuple[str, dict[str, Any]]] = [
        (key, schema[key]) for key in ("$defs", "definitions") if isinstance(schema.get(key), dict)
    ]
    return frozenset({"#", *(f"#/{key}/{name}" for key, parts in named for name in parts)})
