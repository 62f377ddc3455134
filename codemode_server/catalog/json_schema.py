"""Reads untrusted JSON Schema: references, `allOf`, kinds of values, parameters, and constraints in a few words.

A schema may be malformed anywhere. Work is bounded: when references or nested `allOf` exceed a budget, the rest reads
as "any value".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from codemode_server.catalog.naming import parameter_names
from codemode_server.catalog.untrusted import is_small, one_line, short_repr

Flat = dict[str, Any]
"""A schema without `$ref` and `allOf` at its top."""

_STEPS = 5_000
"""Maximum number of references and `allOf` parts followed for one tool; the largest real tool needs a few hundred."""
_MAX_DEPTH = 16
_MAX_NUMBER = 2**53 - 1
"""Generators write the largest safe integer for no bound."""
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


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    """The Python name."""
    raw_name: str
    """The upstream's name."""
    is_required: bool
    schema: Any
    """Its schema; untrusted."""


def parameters_of(input_schema: object) -> tuple[Parameter, ...]:
    """Required parameters first, each group in the order of the schema; positional arguments follow this order."""
    reader = SchemaReader(input_schema)
    declared, required = _declared(reader, input_schema)
    names = parameter_names(declared)
    parameters = [Parameter(names[raw], raw, raw in required, schema) for raw, schema in declared.items()]
    parameters.sort(key=lambda parameter: not parameter.is_required)
    return tuple(parameters)


def takes_any_arguments(input_schema: object) -> bool:
    """True if the tool accepts arguments without declaring them."""
    flat = SchemaReader(input_schema).flat(input_schema)
    more = flat.get("additionalProperties")
    return not properties_of(flat) and (more is True or isinstance(more, dict))


def _declared(reader: SchemaReader, input_schema: object) -> tuple[dict[str, Any], set[str]]:
    """The properties and the required names; of alternatives, all properties and the names that each requires."""
    flat = reader.flat(input_schema)
    declared, required = dict(properties_of(flat)), set(required_of(flat))
    branches = [reader.flat(branch) for branch in branches_of(flat)]
    for branch in branches:
        for name, schema in properties_of(branch).items():
            declared.setdefault(name, schema)
    if branches:
        required |= set.intersection(*(set(required_of(branch)) for branch in branches))
    for name in required_of(flat):  # also if it is not declared: without it the upstream refuses the call
        declared.setdefault(name, {})
    return {name: schema for name, schema in declared.items() if isinstance(name, str)}, required


def facts_of(flat: Flat, said: str, *, has_values: bool) -> list[str]:
    """Constraints that Python types do not express, such as `1..10`, `at most 5 items`, without those that `said`, the
    description, repeats. `has_values`: the type shows the enum."""
    return [fact for fact in _facts(flat, said, has_values=has_values) if not _is_said(fact, said)]


def _facts(flat: Flat, said: str, *, has_values: bool) -> Iterable[str]:
    values = enum_of(flat)
    if values and not has_values:
        yield f"one of {len(values):,} values, such as {short_repr(values[:3], 80)}"
    yield from _range(_number(flat, "minimum"), _number(flat, "maximum"), ">= {}", "<= {}")
    for key, words in (("exclusiveMinimum", ">"), ("exclusiveMaximum", "<"), ("multipleOf", "multiple of")):
        if (value := _number(flat, key)) is not None:
            yield f"{words} {value}"
    for key, unit in (("Length", "characters"), ("Items", "items"), ("Properties", "keys")):
        least, most = _number(flat, f"min{key}"), _number(flat, f"max{key}")
        least = least if least and (least > 1 or unit != "characters") else None
        yield from (f"{fact} {unit}" for fact in _range(least, most, "at least {}", "at most {}"))
    pattern = flat.get("pattern")
    if isinstance(pattern, str) and pattern not in said and len(pattern) <= 100:
        yield f"pattern {one_line(pattern, 100)}"
    for key in ("format", "contentEncoding"):
        name = flat.get(key)
        if isinstance(name, str) and re.fullmatch(r"[a-z0-9-]{2,20}", name) and name not in said.lower():
            yield name
    places = [kinds_of(part) if isinstance(part, dict) else [] for part in tuple_of(flat)]
    if len(places) > 1:
        yield f"by place: {', '.join(one_line(kinds[0], 20) if kinds else 'any' for kinds in places)}"
    if flat.get("deprecated") is True:
        yield "deprecated"


def _range(low: float | None, high: float | None, at_least: str, at_most: str) -> Iterable[str]:
    if low is not None and high is not None:
        yield f"{low}..{high}" if low != high else str(low)
    elif low is not None:
        yield at_least.format(low)
    elif high is not None:
        yield at_most.format(high)


def _number(flat: Flat, key: str) -> int | float | None:
    value = flat.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not is_small(value):
        return None
    return value if abs(value) < _MAX_NUMBER else None


def _is_said(fact: str, said: str) -> bool:
    """True if the description already contains the numbers of a bound."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", fact)
    is_bound = re.match(r"[-\d<>]|at (?:most|least)", fact) is not None
    return is_bound and all(re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", said) for number in numbers)
