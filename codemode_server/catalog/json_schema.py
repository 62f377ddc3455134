"""Defensive reading of JSON Schema as upstreams really send it: references, `allOf`, and what kind of value is meant.

Nothing here trusts the shape of a schema. Work is bounded: references that fan out or recurse, and `allOf` inside
`allOf`, are followed until a budget is spent, then read as "anything".
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

Flat = dict[str, Any]
"""A schema without `$ref` and `allOf` at its top."""

_STEPS = 5_000
"""References and allOf parts followed for one tool; the largest real tool needs a few hundred."""
_DEEPEST = 16
_ANNOTATIONS = frozenset({"$ref", "description", "title", "default", "examples", "deprecated", "$comment"})


class SchemaReader:
    """Reads the parts of one root schema."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._steps = _STEPS

    def flat(self, schema: object, depth: int = 0) -> Flat:
        """The schema with its references followed and its `allOf` merged in; `{}` for "anything"."""
        if not isinstance(schema, dict):
            return {}
        reference, parts = schema.get("$ref"), schema.get("allOf")
        if not isinstance(reference, str) and not isinstance(parts, list):
            return schema
        self._steps -= 1
        if self._steps < 0 or depth > _DEEPEST:
            return {}
        merged: Flat = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        if isinstance(reference, str):
            merged = _merged(merged, self.flat(self._target(reference), depth + 1))
        for part in parts if isinstance(parts, list) else ():
            merged = _merged(merged, self.flat(part, depth + 1))
        return merged

    def _target(self, reference: str) -> object:
        """What a reference into the same document points to, else None."""
        if not reference.startswith("#"):
            return None
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return None  # an $anchor; no server was seen to use one
        found: object = self._root
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(key)
            elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 6 and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found


def is_mere_reference(schema: object) -> bool:
    """Whether the schema is a `$ref` and nothing that changes what it means."""
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and _ANNOTATIONS.issuperset(schema)


def properties_of(flat: Flat) -> dict[str, Any]:
    """The declared properties, none for anything malformed."""
    found = flat.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(flat: Flat) -> list[str]:
    """The names that are required, none for anything malformed (draft 3 had a boolean here)."""
    found = flat.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def branches_of(flat: Flat) -> list[Any]:
    """The alternatives of `anyOf` and `oneOf`."""
    return [branch for key in ("anyOf", "oneOf") if isinstance(flat.get(key), list) for branch in flat[key]]


def kinds_of(flat: Flat) -> list[str]:
    """The JSON types that the schema names, or that its other keywords imply."""
    declared = flat.get("type")
    if isinstance(declared, str):
        return [declared]
    if isinstance(declared, list):
        kinds = [kind for kind in declared if isinstance(kind, str)]
        if kinds:
            return kinds
    if properties_of(flat) or isinstance(flat.get("additionalProperties"), dict) or "patternProperties" in flat:
        return ["object"]
    if "items" in flat or "prefixItems" in flat:
        return ["array"]
    return []


def enum_of(flat: Flat) -> list[Any]:
    """The values that alone are allowed, none if any is."""
    if "const" in flat:
        return [flat["const"]]
    found = flat.get("enum")
    return found if isinstance(found, list) else []


def tuple_of(flat: Flat) -> list[Any]:
    """The schemas of an array's items by place, as drafts before and after 2020-12 write them."""
    for key in ("prefixItems", "items"):
        found = flat.get(key)
        if isinstance(found, list) and found:
            return found[:50]
    return []


def _merged(first: Flat, second: Flat) -> Flat:
    """Both at once, as far as a type can say it; where they contradict, the first."""
    if not first:
        return second
    merged = {**second, **first}
    if properties_of(first) and properties_of(second):
        merged["properties"] = {**properties_of(second), **properties_of(first)}
    if required_of(first) and required_of(second):
        merged["required"] = list(dict.fromkeys(required_of(second) + required_of(first)))
    return merged
