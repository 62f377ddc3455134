"""Reads untrusted JSON Schema: resolves references, merges `allOf`, and finds the kinds of values.

A schema may be malformed anywhere. Work is bounded: when references or nested `allOf` exceed a budget, the rest reads
as "any value".
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

Flat = dict[str, Any]
"""A schema without `$ref` and `allOf` at its top."""

_STEPS = 5_000
"""Maximum number of references and `allOf` parts followed for one tool; the largest real tool needs a few hundred."""
_MAX_DEPTH = 16
_ANNOTATIONS = frozenset({"$ref", "description", "title", "default", "examples", "deprecated", "$comment"})


class SchemaReader:
    """Reads the parts of one root schema."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._steps = _STEPS

    def flat(self, schema: object, depth: int = 0) -> Flat:
        """The schema with references resolved and `allOf` merged; `{}` for any value."""
        if not isinstance(schema, dict):
            return {}
        reference, parts = schema.get("$ref"), schema.get("allOf")
        if not isinstance(reference, str) and not isinstance(parts, list):
            return schema
        self._steps -= 1
        if self._steps < 0 or depth > _MAX_DEPTH:
            return {}
        merged: Flat = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        if isinstance(reference, str):
            merged = _merged(merged, self.flat(self._target(reference), depth + 1))
        if isinstance(parts, list):
            for part in parts:
                merged = _merged(merged, self.flat(part, depth + 1))
        return merged

    def _target(self, reference: str) -> object:
        """The target of a reference within the document; None if there is none."""
        if not reference.startswith("#"):
            return None
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return None  # an $anchor, which no known server uses
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
    """True if the schema is only a `$ref` and annotations."""
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and _ANNOTATIONS.issuperset(schema)


def properties_of(flat: Flat) -> dict[str, Any]:
    """The declared properties; empty if malformed."""
    found = flat.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(flat: Flat) -> list[str]:
    """The required names; empty if malformed (draft 3 had a boolean here)."""
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
    """The allowed values; empty if any value is allowed."""
    if "const" in flat:
        return [flat["const"]]
    found = flat.get("enum")
    return found if isinstance(found, list) else []


def tuple_of(flat: Flat) -> list[Any]:
    """The schemas of an array's items by position, as written before or since draft 2020-12."""
    for key in ("prefixItems", "items"):
        found = flat.get(key)
        if isinstance(found, list) and found:
            return found[:50]
    return []


def _merged(first: Flat, second: Flat) -> Flat:
    """Both schemas merged as far as a type can express it; the first wins a conflict."""
    if not first:
        return second
    merged = {**second, **first}
    if properties_of(first) and properties_of(second):
        merged["properties"] = {**properties_of(second), **properties_of(first)}
    if required_of(first) and required_of(second):
        merged["required"] = list(dict.fromkeys(required_of(second) + required_of(first)))
    return merged
