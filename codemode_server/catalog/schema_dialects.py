"""Rewrites an upstream's JSON Schema as one of draft 2020-12 that can be read and judged. Pure.

Keywords of older drafts and of OpenAPI are translated. A keyword of a wrong type is read as what it plainly stands for
(`"required": true`, `"type": "String"`), else left out. Where a part can't be judged (regular expressions, formats,
references, what was left out), the keywords around it that would refuse a value because the part fits (`oneOf`, `not`,
`if`) are loosened: what the server would accept is never refused here. Depth and size are bounded: what is beyond them
reads as "any value".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

_MAX_DEPTH = 64
_MAX_NODES = 20_000
TYPES = (
    {name: name for name in ("string", "number", "integer", "boolean", "array", "object", "null")}
    | {
        **dict.fromkeys(("float", "double", "decimal"), "number"),
        **dict.fromkeys(("int", "long"), "integer"),
        **dict.fromkeys(("dict", "map"), "object"),
        **dict.fromkeys(("str", "text"), "string"),
    }
    | {"bool": "boolean", "list": "array", "none": "null"}
)
_OF_SCHEMAS = frozenset({"title", "description", "type", "required", "additionalProperties", "$schema", "$defs"})
"""Keywords that authors write into `properties`, one level too deep; a schema is never a text or a list."""
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = frozenset(f"{least}{what}" for least in ("min", "max") for what in ("Length", "Items", "Properties"))
SCHEMAS = frozenset({"items", "additionalProperties", "contains", "propertyNames", "then", "else"})
LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_UNJUDGED = frozenset({"pattern", "patternProperties", "format", "contentEncoding", "$dynamicRef"}) | {
    *("unevaluatedProperties", "unevaluatedItems", "$ref")
}
"""Keywords that nothing here checks, or only some of whose targets."""
_DROPPED = frozenset({"$schema", "$id", "id", "$anchor", "$vocabulary"})
"""Names and dialects: a reference is resolved within the document, whatever the document calls itself."""
_ELSEWHERE = frozenset({"required", "nullable", "x-nullable", "additionalItems", "disallow", "maxContains"})
"""Keywords that are read with others, or not judged."""
_COMPOSED = frozenset({"anyOf", "oneOf", "allOf", "$ref", "if", "then", "else", "dependentSchemas"})


def readable_schema(schema: object) -> dict[str, Any]:
    """The schema of an object's arguments, rewritten; `{}`, which allows anything, if it is no schema."""
    made = _Rewriter(schema).rewritten(schema, 0)
    return made if isinstance(made, dict) else {}


def target_of(root: object, reference: str) -> object:
    """The target of a reference within a document; None if there is none."""
    if not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None  # an $anchor, which no known server uses
    found = root
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 6 and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


class _Rewriter:
    def __init__(self, root: object) -> None:
        self._root = root
        self._nodes = _MAX_NODES
        self._doubts = 0
        dialect, own_id = (root.get(key) if isinstance(root, dict) else None for key in ("$schema", "$id"))
        self._is_old = re.search(r"draft-0[3-7]", dialect) is not None if isinstance(dialect, str) else False
        self._own_id = own_id.rstrip("#") if isinstance(own_id, str) else ""

    def rewritten(self, schema: object, depth: int, *, is_part: bool = False) -> dict[str, Any] | bool:
        """`is_part`: other schemas say more about the same object, so it can't say alone which keys there are."""
        self._nodes -= 1
        if isinstance(schema, bool):
            return schema
        if isinstance(schema, str):  # `{"name": "string"}`
            kind = TYPES.get(schema.lower())
            return {"type": kind} if kind else {"description": schema}
        if not isinstance(schema, dict) or depth > _MAX_DEPTH or self._nodes < 0:
            self._doubts += 1
            return {}
        made: dict[str, Any] = {}
        is_part = is_part or not _COMPOSED.isdisjoint(schema)
        for key, value in schema.items():
            if key in _DROPPED and isinstance(value, str):
                continue
            kept = self._keyword(key, value, depth + 1, schema, is_part=is_part)
            self._doubts += kept is None or key in _UNJUDGED
            if kept and "allOf" in kept:
                kept = {"allOf": made.get("allOf", []) + kept["allOf"]}
            made |= kept or {}
        if self._is_old and "$ref" in made:  # what stands beside a reference was ignored
            made = {key: value for key, value in made.items() if key not in _BOUNDS | _COUNTS | {"type"}}
        self._require(schema, made)
        return _nullable(made, schema)

    def _keyword(
        self, key: str, value: Any, depth: int, schema: Mapping[str, Any], *, is_part: bool
    ) -> dict[str, Any] | None:
        if key == "type":
            return self._type(value, depth)
        if key in ("divisibleBy", "extends"):
            value = value if isinstance(value, list) or key == "divisibleBy" else [value]
            return self._keyword({"divisibleBy": "multipleOf"}.get(key, "allOf"), value, depth, schema, is_part=is_part)
        if key in _BOUNDS:
            return self._bound(key, value, schema)
        if key in _COUNTS or key == "minContains":
            return {key: int(value)} if _is_number(value) and value >= 0 and value == int(value) else None
        if key == "items" and isinstance(value, list):  # a tuple, before draft 2020-12
            others = schema.get("additionalItems", True)
            return {"prefixItems": self._list(value, depth), "items": self.rewritten(others, depth)} if value else {}
        if key == "dependencies" and isinstance(value, dict):
            return self._dependencies(value, depth, schema)
        if key == "additionalProperties" and not isinstance(value, bool | dict):
            return None
        if key == "additionalProperties" and is_part and value is not True and value:
            return {key: self.rewritten(value, depth)} if "properties" not in schema else None
        if key == "additionalProperties" and is_part and value is False:
            return {"unevaluatedProperties": False}
        if key in LISTS:
            return self._composed(key, value, depth, schema) if isinstance(value, list) and value else None
        if key in ("if", "not", "contains"):
            doubts = self._doubts
            part = self.rewritten(value, depth)
            is_loose = self._doubts > doubts and key != "contains"
            return {} if is_loose else {key: part}
        if key in SCHEMAS:
            return {key: self.rewritten(value, depth, is_part=key in ("then", "else"))}
        if key in MAPS:
            return self._map(key, value, depth)
        if key == "enum":
            return {key: value} if isinstance(value, list) and value else None
        if key == "$ref":
            return self._reference(value)
        if key == "dependentRequired":
            return {key: value} if isinstance(value, dict) and all(map(_is_names, value.values())) else None
        return {} if key in _ELSEWHERE else {key: value}

    def _type(self, value: object, depth: int) -> dict[str, Any] | None:
        kinds = value if isinstance(value, list) else [value]
        if any(kind and isinstance(kind, dict) for kind in kinds):  # a union of draft 3
            return {"anyOf": self._list(kinds, depth)}
        names = [TYPES.get(kind.lower()) for kind in kinds if isinstance(kind, str)]
        known = list(dict.fromkeys(name for name in names if name))
        if not known or None in names:
            return None
        return {"type": known if isinstance(value, list) else known[0]}

    def _bound(self, key: str, value: Any, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """A bound; that of draft 4 is exclusive if `exclusiveMinimum` beside it is true."""
        inclusive = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}.get(key)
        if inclusive and isinstance(value, bool):
            limit = schema.get(inclusive)
            return {key: limit} if value and _is_number(limit) else {}
        if schema.get(f"exclusive{key[:1].upper()}{key[1:]}") is True:
            return {}
        return {key: value} if _is_number(value) and (key != "multipleOf" or value > 0) else None

    def _dependencies(self, value: dict[str, Any], depth: int, schema: Mapping[str, Any]) -> dict[str, Any]:
        names = {key: [it] if isinstance(it, str) else it for key, it in value.items() if not isinstance(it, dict)}
        schemas = {key: self.rewritten(it, depth, is_part=True) for key, it in value.items() if isinstance(it, dict)}
        made = {"dependentRequired": {k: v for k, v in names.items() if _is_names(v)}, "dependentSchemas": schemas}
        return made if made.keys().isdisjoint(schema) else {"allOf": [made]}

    def _list(self, value: list[Any], depth: int) -> list[Any]:
        return [self.rewritten(part, depth) for part in value]

    def _composed(self, key: str, value: list[Any], depth: int, schema: Mapping[str, Any]) -> dict[str, Any]:
        if key == "prefixItems":
            return {key: self._list(value, depth)}
        doubts = self._doubts
        is_part = key == "allOf" or "properties" in schema or len(_COMPOSED & schema.keys()) > 1
        parts = [self.rewritten(self._closed(part) if is_part else part, depth, is_part=is_part) for part in value]
        if key != "oneOf" or self._doubts == doubts:
            return {key: parts}
        return {"allOf": [{"anyOf": parts}]} if "anyOf" in schema or "allOf" in schema else {"anyOf": parts}

    def _closed(self, part: Any) -> Any:
        """The target of a part that is a mere reference to an object without other keys, which is loosened there."""
        target = (
            target_of(self._root, part["$ref"])
            if isinstance(part, dict) and isinstance(part.get("$ref"), str)
            else None
        )
        return target if isinstance(target, dict) and target.get("additionalProperties") is False else part

    def _map(self, key: str, value: Any, depth: int) -> dict[str, Any] | None:
        value = by_name(value) if key == "properties" else value
        if not isinstance(value, dict):
            return None
        is_part = key == "dependentSchemas"
        parts = {name: part for name, part in value.items() if key != "properties" or not is_misplaced(name, part)}
        return {key: {name: self.rewritten(part, depth, is_part=is_part) for name, part in parts.items()}}

    def _reference(self, value: object) -> dict[str, Any] | None:
        if not isinstance(value, str):
            return None
        reference = value.removeprefix(self._own_id) if self._own_id and "#" in value else value
        is_known = isinstance(target_of(self._root, reference), dict | bool)
        return {"$ref": reference} if is_known else {"additionalProperties": True}  # whatever it would declare

    def _require(self, schema: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Adds the names that are required, wherever the drafts and authors write that."""
        declared = by_name(schema.get("properties"))
        properties = declared if isinstance(declared, dict) else {}
        names = [*_names(schema.get("required"))]
        if isinstance(properties.get("required"), list | str):
            names += _names(properties["required"])
        for name, part in properties.items():
            if isinstance(part, dict) and str(part.get("required")).lower() == "true":
                names.append(name)
        if names and not (self._is_old and "$ref" in made):
            made["required"] = list(dict.fromkeys(names))


def _nullable(made: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """With null among the values, where OpenAPI's `nullable` or the enum says so."""
    values, kinds = made.get("enum"), made.get("type")
    if values and kinds and not any(_is_of(value, kinds) for value in values):
        if "array" in kinds:  # the values of its items
            items = made.get("items")
            made["items"] = _nullable({"enum": made.pop("enum"), **(items if isinstance(items, dict) else {})}, {})
            return _nullable(made, schema)
        del made["type"]  # as of `{"type": "string", "enum": [1, 2]}`: nothing is of both
        kinds = None
    is_nullable = any(schema.get(key) is True for key in ("nullable", "x-nullable"))
    if not is_nullable and not (values and None in values and kinds):
        return made
    if values and None not in values:
        made["enum"] = [*values, None]
    if kinds is not None:
        made["type"] = list(dict.fromkeys([*(kinds if isinstance(kinds, list) else [kinds]), "null"]))
    elif not _COMPOSED.isdisjoint(made) or "const" in made:
        kept = {key: made.pop(key) for key in [*made] if key in _COMPOSED or key in ("const", "properties", "required")}
        made["anyOf"] = [kept, {"type": "null"}]
    return made


def by_name(properties: object) -> object:
    """Properties that are written as a list: `[{"name": "id", "type": "string"}]`."""
    if not isinstance(properties, list):
        return properties
    return {part["name"]: part for part in properties if isinstance(part, dict) and isinstance(part.get("name"), str)}


def is_misplaced(name: str, part: object) -> bool:
    """True if a property is in fact a keyword of the object, written one level too deep."""
    is_type = isinstance(part, str) and part.lower() in TYPES and name != "type"
    return name in _OF_SCHEMAS and not isinstance(part, dict) and not is_type


def _is_of(value: Any, kinds: str | list[str]) -> bool:
    of = {str: "string", bool: "boolean", int: "integer number", float: "integer number", list: "array", dict: "object"}
    names = of.get(type(value), "null").split()
    return any(name in ([kinds] if isinstance(kinds, str) else kinds) for name in names)


def _names(value: object) -> list[str]:
    listed = [value] if isinstance(value, str) and value.lower() not in ("true", "false") else value
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
