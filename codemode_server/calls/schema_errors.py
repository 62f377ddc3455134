"""Describes the errors of a schema check: where, what was expected, what was given.

For `oneOf`/`anyOf`, the intended alternative is the one whose JSON type matches, then the one whose properties with a
single value (`type: {const: "page_id"}`) match, then the one with the fewest errors.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

from codemode_server.catalog.json_schema import SchemaReader, enum_of, properties_of, required_of
from codemode_server.sandbox.guest.similar_names import similar_name

_MAX_NAME = 100
_MAX_KEYS = 5
_MAX_HINTS = 2
"""Keys of one object that are compared with the known ones: both sides may be hostile."""
_MAX_VALUES = 20
_MAX_ALTERNATIVES = 50
_MAX_PROBLEMS_OF_ONE = 2
_MAX_DEPTH = 5
_BOUNDS = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
_KINDS = {
    "array": "a list",
    "object": "a dict",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "null": "null",
}


def in_words(error: Any, reader: SchemaReader, depth: int = 0) -> str:
    """One `jsonschema` error; `reader` is that of the tool's whole schema."""
    place = _place(error)
    name = f"{place} " if place else ""
    expected = error.validator_value
    match error.validator:
        case "type":
            kinds = " or ".join(_KINDS.get(kind, str(kind)) for kind in _listed(expected))
            return f"{name}must be {kinds}, not {_shown(error.instance)}"
        case "enum":
            values = [_shown(value) for value in expected[: _MAX_VALUES + 1]]
            return f"{name}must be {_one_of(values)}, not {_shown(error.instance)}"
        case "const":
            return f"{name}must be {_shown(expected)}, not {_shown(error.instance)}"
        case "required":
            return f"{name}is missing {_missing(error, reader)}"
        case "additionalProperties" if expected is False and isinstance(error.schema, dict):
            return f"{name}has no key {_unknown_keys(error, reader)}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return f"{name}must be {_BOUNDS[error.validator]} {expected}, not {_shown(error.instance)}"
        case "anyOf" | "oneOf":
            return _of_alternatives(error, reader, depth)
        case _:
            return f"{name}{error.message[:200]}"


def _missing(error: Any, reader: SchemaReader) -> str:
    missing = [key for key in error.validator_value if key not in error.instance][:_MAX_KEYS]
    is_closed = isinstance(error.schema, dict) and error.schema.get("additionalProperties") is False
    others = [] if is_closed else _others(error, reader)[:_MAX_HINTS]  # else each is reported by itself
    meant = {key: other for other in others if (key := similar_name(other, missing))}
    hints = {key: f" (did you mean it by {quoted(meant[key])}?)" if key in meant else "" for key in missing}
    return ", ".join(quoted(key) + hints[key] for key in missing)


def _unknown_keys(error: Any, reader: SchemaReader) -> str:
    known = list(properties_of(reader.flat(error.schema)))
    free = [key for key in known if key not in error.instance]
    hints = {
        key: similar_name(key, free) if number < _MAX_HINTS else None
        for number, key in enumerate(_others(error, reader))
    }
    shown = (quoted(key) + (f" (did you mean {quoted(meant)}?)" if meant else "") for key, meant in hints.items())
    more = ", …" if len(known) > _MAX_VALUES else ""
    keys = f"; its keys: {', '.join(map(quoted, known[:_MAX_VALUES]))}{more}" if known else ""
    return ", ".join(shown) + keys


def _others(error: Any, reader: SchemaReader) -> list[str]:
    known = properties_of(reader.flat(error.schema))
    return list(islice((key for key in error.instance if key not in known), _MAX_KEYS))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def quoted(name: str) -> str:
    return repr(name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…")


def _of_alternatives(error: Any, reader: SchemaReader, depth: int) -> str:
    name = f"{place} " if (place := _place(error)) else ""
    if not error.context:
        return f"{name}fits several of its forms, and must fit exactly one"
    options = [reader.flat(option) for option in error.validator_value[:_MAX_ALTERNATIVES]]
    problems: dict[int, list[Any]] = {}
    for problem in error.context:
        problems.setdefault(problem.relative_schema_path[0], []).append(problem)
    possible = [number for number in problems if number < len(options) and not _is_another_kind(problems[number])]
    if not possible or depth >= _MAX_DEPTH:
        return f"{name}must be one of {_forms(options)}, not {_shown(error.instance)}"
    tags = {number: _tags(options[number], reader) for number in possible}
    if wrong := _wrong_tag(error.instance, [(options[number], tags[number]) for number in possible]):
        return f"{name}{wrong}"
    meant = [number for number in possible if not _contradicts(error.instance, tags[number])] or possible
    fewest = min(len(problems[number]) for number in meant)
    meant = [number for number in meant if len(problems[number]) == fewest]
    if len(meant) > 1:
        return f"{name}must be one of {_forms([options[number] for number in possible])}, not {_shown(error.instance)}"
    given = [(tag, value) for tag, value in tags[meant[0]].items() if error.instance.get(tag) == value]
    mark = "".join(f"with {quoted(tag)} {_shown(value)} " for tag, value in given[:1])
    lines = dict.fromkeys(_of_one(problem, f"{name}{mark}", reader, depth) for problem in problems[meant[0]])
    return "; ".join(list(lines)[:_MAX_PROBLEMS_OF_ONE])


def _of_one(problem: Any, name: str, reader: SchemaReader, depth: int) -> str:
    """A problem of the intended alternative. `name` is the prefix unless the problem has a deeper path."""
    text = in_words(problem, reader, depth + 1)
    place = _place(problem)
    is_here = name.startswith(f"{place} ") if place else not text.startswith("'")
    return f"{name}{text.removeprefix(place).lstrip()}" if is_here and text.startswith(place) else text


def _place(error: Any) -> str:
    """Where it is, for instance `'items[0].name'`; empty for the arguments as a whole."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    where = "".join(parts).lstrip(".")
    return quoted(where) if where else ""


def _wrong_tag(instance: Any, alternatives: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """The problem with the property that distinguishes the alternatives; empty if it has one of their values or does
    not exist. Each alternative comes with its `_tags`."""
    tags = [found for _, found in alternatives]
    common = [name for name in tags[0] if len(tags) > 1 and all(name in other for other in tags)]
    if not isinstance(instance, dict) or not common:
        return ""
    name = common[0]
    values = list(dict.fromkeys(_shown(other[name]) for other in tags))
    if name in instance and _shown(instance[name]) not in values:
        return f"has {quoted(name)} {_shown(instance[name])}, which must be {_one_of(values)}"
    if name not in instance and all(name in required_of(option) for option, _ in alternatives):
        return f"is missing {quoted(name)}, which must be {_one_of(values)}"
    return ""


def _tags(option: dict[str, Any], reader: SchemaReader) -> dict[str, Any]:
    """The properties of an alternative that have a single value, which distinguishes it from the others."""
    values = {name: enum_of(reader.flat(schema)) for name, schema in list(properties_of(option).items())[:100]}
    return {name: found[0] for name, found in values.items() if len(found) == 1}


def _contradicts(instance: Any, tags: dict[str, Any]) -> bool:
    return isinstance(instance, dict) and any(name in instance and instance[name] != tags[name] for name in tags)


def _is_another_kind(problems: list[Any]) -> bool:
    return any(problem.validator == "type" and len(problem.relative_path) == 0 for problem in problems)


def form_of(option: dict[str, Any]) -> str:
    """An alternative in a few words: its JSON type, and what an object requires."""
    keys = required_of(option) or list(properties_of(option))
    if not option.get("type") and "const" in option:
        return _shown(option["const"])
    if not option.get("type") and not keys:
        return "…"
    kinds = _listed(option.get("type") or "object")
    name = " or ".join(_KINDS.get(str(kind)) or _shown(kind) for kind in kinds[:_MAX_VALUES])
    return f"{name} with {', '.join(map(quoted, keys[:4]))}" if kinds == ["object"] and keys else name


def _forms(options: list[dict[str, Any]]) -> str:
    return " | ".join(dict.fromkeys(map(form_of, options[:6]))) + (" | …" if len(options) > 6 else "")


def _one_of(values: list[str]) -> str:
    more = ", …" if len(values) > _MAX_VALUES else ""
    return f"one of {', '.join(values[:_MAX_VALUES])}{more}" if len(values) > 1 else values[0]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
