"""Reads untrusted JSON Schema: references, `allOf`, kinds of values, parameters, and constraints in a few words.

A schema may be malformed anywhere. Work is bounded: when references or nested `allOf` exceed a budget, the rest reads
as "any value".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.naming import parameter_names
from codemode_server.catalog.schema_dialects import readable_schema, target_of
from codemode_server.catalog.untrusted import is_small, one_line, short_repr

Flat = dict[str, Any]
"""A schema without `$ref` and `allOf` at its top."""

_STEPS = 5_000
"""Maximum number of references and `allOf` parts followed for one tool; the largest real tool needs a few hundred."""
_MAX_DEPTH = 16
_MAX_BRANCHES = 50
_MAX_NESTED_BRANCHES = 3
_CONDITIONS = "$conditions"
"""Key of a merged schema: the keywords `if`, `then` and so on of each of its parts."""
_CONDITIONAL = ("if", "then", "else", "dependentSchemas", "dependentRequired")
_MAX_NUMBER = 2**53 - 1
"""Generators write the largest safe integer for no bound."""
_ANNOTATIONS = frozenset({"$ref", "description", "title", "default", "examples", "deprecated", "$comment"})
_TESTED = _ANNOTATIONS | {"type", "properties", "required"}


class SchemaReader:
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
            merged = _merged(merged, self.flat(target_of(self._root, reference), depth + 1))
        if isinstance(parts, list):
            for part in parts:
                merged = _merged(merged, self.flat(part, depth + 1))
        return merged


def is_mere_reference(schema: object) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and _ANNOTATIONS.issuperset(schema)


def properties_of(flat: Flat) -> dict[str, Any]:
    found = flat.get("properties")
    return found if isinstance(found, dict) else {}


def required_of(flat: Flat) -> list[str]:
    """The required names; empty if malformed (draft 3 had a boolean here)."""
    found = flat.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def branches_of(flat: Flat) -> list[Any]:
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
    merged = {key: value for key, value in {**second, **first}.items() if key not in _CONDITIONAL}
    if conditional := [*_conditional(first), *_conditional(second)]:
        merged[_CONDITIONS] = conditional
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        merged["properties"] = {**first["properties"], **second["properties"], **first["properties"]}
    for key in ("required", "anyOf", "oneOf"):
        if isinstance(mine := first.get(key), list) and isinstance(others := second.get(key), list):
            merged[key] = [*mine, *(it for it in others if it not in mine)]
    return merged


@dataclass(frozen=True, slots=True)
class Members:
    schemas: dict[str, Any]
    required: frozenset[str]
    is_open: bool
    """True if others may be given: the schema says so, or says nothing of any."""
    forms: tuple[str, ...] = ()
    """Each alternative as its names, such as `kind="page", page_id, title?`."""
    conditions: tuple[str, ...] = ()
    """What others need or allow, such as `when kind="page": page_id, title?`."""


def members_of(reader: SchemaReader, schema: object) -> Members:
    """The members of the objects of a schema. A property that alternatives declare differently is of any of these
    types, unless the schema around them says which."""
    flat = reader.flat(schema)
    branches = [reader.flat(branch) for branch in branches_of(flat)][:_MAX_BRANCHES]
    inner = [(set(required_of(branch)), _all_properties(reader, branch, 0)) for branch in branches]
    own = dict(properties_of(flat))
    variants: dict[str, list[Any]] = {}
    typed = {name for name, part in own.items() if kinds_of(reader.flat(part))}  # elsewhere not as a condition says
    depending = [{name: it[name] for name in it if name not in typed} for it in _consequences(reader, flat, 0)]
    for found in (*(properties for _, properties in inner), *depending):
        for name, part in found.items():
            if part not in (known := variants.setdefault(name, [])):
                known.append(part)
    schemas = {name: _narrowed(reader, part, variants.pop(name, [])) for name, part in own.items()}
    schemas |= {name: parts[0] if len(parts) == 1 else {"anyOf": parts} for name, parts in variants.items()}
    required = set(required_of(flat))
    if branches:
        required |= set.intersection(*(names for names, _ in inner))
    for name in (*required_of(flat), *required):  # also if it is not declared: the upstream refuses calls without it
        schemas.setdefault(name, {})
    more = [part.get("additionalProperties", part.get("unevaluatedProperties")) for part in (flat, *branches)]
    is_said = any(it is True or isinstance(it, dict) for it in more) or "patternProperties" in flat
    is_open = is_said or (not schemas and False not in more)
    for name in {name: None for part in (flat, *branches) for name in _mentioned(reader, part, 0)}:
        schemas.setdefault(name, {})
    forms = dict.fromkeys(_form(reader, names, found) for names, found in inner if names or found)
    return Members(
        {name: part for name, part in schemas.items() if isinstance(name, str)},
        frozenset(required),
        is_open,
        tuple(forms) if len(forms) > 1 else (),
        tuple(dict.fromkeys(text for it in _conditions(reader, flat) if (text := _condition_text(reader, it)))),
    )


def _all_properties(reader: SchemaReader, flat: Flat, depth: int) -> dict[str, Any]:
    """The properties of a schema, then those of its alternatives and conditions, to a few levels."""
    found = dict(properties_of(flat))
    for branch in branches_of(flat)[:_MAX_BRANCHES] if depth < _MAX_NESTED_BRANCHES else ():
        found = {**_all_properties(reader, reader.flat(branch), depth + 1), **found}
    for more in _consequences(reader, flat, depth):
        found = {**more, **found}
    return found


def _conditional(flat: Flat) -> list[Flat]:
    own = {key: flat[key] for key in _CONDITIONAL if key in flat}
    merged = flat.get(_CONDITIONS)
    return [*([own] if own else []), *(merged if isinstance(merged, list) else [])]


def _conditions(reader: SchemaReader, flat: Flat) -> list[Flat]:
    """Each condition as `if`, `then` and `else`, also those of an `else` that asks further."""
    made: list[Flat] = []
    waiting = _conditional(flat)
    for part in waiting:
        if len(made) >= _MAX_BRANCHES or not isinstance(part, dict):
            break
        for key in ("dependentRequired", "dependentSchemas"):
            dependent = part.get(key)
            for name, then in dependent.items() if isinstance(dependent, dict) else ():
                then = {"required": then} if key == "dependentRequired" else then
                made.append({"if": {"required": [name]}, "then": then})
        if "then" in part or "else" in part:
            other = reader.flat(part.get("else"))
            waiting += _conditional(other)
            other = {key: it for key, it in other.items() if key not in (*_CONDITIONAL, _CONDITIONS)}
            made.append({**part, "else": other})
    return made[:_MAX_BRANCHES]


def _consequences(reader: SchemaReader, flat: Flat, depth: int) -> list[dict[str, Any]]:
    parts = [it.get(key) for it in _conditions(reader, flat) for key in ("then", "else")]
    return [_all_properties(reader, reader.flat(it), depth + 1) for it in parts if depth < _MAX_NESTED_BRANCHES]


def _mentioned(reader: SchemaReader, flat: Flat, depth: int) -> Iterable[str]:
    """The names in conditions, which may be declared nowhere else."""
    for condition in _conditions(reader, flat) if depth < _MAX_NESTED_BRANCHES else ():
        for part in map(reader.flat, (condition.get(key) for key in ("if", "then", "else"))):
            yield from (*properties_of(part), *required_of(part))
            yield from _mentioned(reader, part, depth + 1)


def _condition_text(reader: SchemaReader, condition: Flat) -> str:
    """A condition in words; empty if it is on more than the values or the presence of properties."""
    tested = reader.flat(condition.get("if"))
    values = {name: enum_of(reader.flat(part)) for name, part in properties_of(tested).items()}
    needed = {name: [] for name in required_of(tested)} | values
    then, other = (
        _form(reader, set(required_of(part)), _all_properties(reader, part, 0))
        for part in (reader.flat(condition.get(key)) for key in ("then", "else"))
    )
    if not needed or not all(values.values()) or not tested.keys() <= _TESTED or not (then or other):
        return ""
    shown = {
        name: "=" + " or ".join(short_repr(it, 40) for it in known) if known else "" for name, known in needed.items()
    }
    said = f"when {one_line(', '.join(f'{name}{text}' for name, text in shown.items()), 200)}: {then or 'nothing more'}"
    return f"{said}; else: {other}" if other else said


def _narrowed(reader: SchemaReader, own: Any, variants: list[Any]) -> Any:
    """A property as the schema itself declares it, with the values that its alternatives list."""
    flat = reader.flat(own)
    values = [value for part in variants for value in enum_of(reader.flat(part))]
    is_listed = bool(variants) and all(enum_of(reader.flat(part)) for part in variants)
    if is_listed and not enum_of(flat):
        return {**flat, "enum": [value for at, value in enumerate(values) if value not in values[:at]]}
    is_vague = not (kinds_of(flat) or enum_of(flat) or branches_of(flat))
    return {**flat, "anyOf": variants} if variants and is_vague else own


def _form(reader: SchemaReader, required: Set[str], properties: dict[str, Any]) -> str:
    """The names that one alternative has: those with a single value first, then the required ones."""
    values = {name: enum_of(reader.flat(part)) for name, part in properties.items()}
    tags = {name: found[0] for name, found in values.items() if len(found) == 1}
    names = sorted(
        dict.fromkeys([*properties, *sorted(required)]), key=lambda name: (name not in tags, name not in required)
    )
    shown = (f"{name}={short_repr(tags[name], 40)}" if name in tags else name for name in names[:_MAX_BRANCHES])
    marks = ("" if name in required or name in tags else "?" for name in names)
    return ", ".join(f"{one_line(text, 80)}{mark}" for text, mark in zip(shown, marks, strict=False))


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    raw_name: str
    is_required: bool
    schema: Any


@dataclass(frozen=True, slots=True)
class ToolInput:
    schema: Flat
    """Its input schema, rewritten by `schema_dialects`."""
    members: Members
    parameters: tuple[Parameter, ...]
    """Required ones first, each group in the order of the schema; positional arguments follow this order."""


def tool_input(input_schema: object) -> ToolInput:
    schema = readable_schema(input_schema)
    members = members_of(SchemaReader(schema), schema)
    names = parameter_names(members.schemas)
    parameters = [Parameter(names[raw], raw, raw in members.required, it) for raw, it in members.schemas.items()]
    parameters.sort(key=lambda parameter: not parameter.is_required)
    return ToolInput(schema, members, tuple(parameters))


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
