"""Finds keys of arguments that look like a misspelt optional key, where the schema allows any key. Pure.

The call is sent all the same, since a tool may take keys that it does not declare. Schema and arguments may both be
hostile, so the work is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import Flat, SchemaReader, branches_of, properties_of
from codemode_server.gateway.schema_errors import quoted
from codemode_server.sandbox.guest.similar_names import similar_name

_MAX_VALUES = 2_000
"""Lists and objects of one call that are looked at."""
_MAX_COMPARED = 5
"""Undeclared keys of one call that are compared with declared ones."""
_MAX_CHARACTERS = 40
"""Longer keys are not compared: the time that a comparison takes grows with the square of their length."""
_MAX_NEAR = 30
"""Declared keys that one is compared with."""
_MAX_FORMS = 20
_MAX_DECLARED = 20_000
"""Declared keys of all objects together: a list may hold many objects of a large schema."""
_MAX_PLACE = 100
_MIN_SIMILARITY = 0.75
"""A map of free keys may well have a key that shares a word with a declared one (`name` beside `full_name`)."""


def misspelt_keys(tool: Tool, arguments: dict[str, Any]) -> list[str]:
    """A line for each key within the arguments that probably stands for a declared key that is absent."""
    is_nested = any(isinstance(value, (dict, list)) for value in arguments.values())
    if not is_nested and arguments.keys() <= {parameter.raw_name for parameter in tool.parameters}:
        return []
    schema = tool.definition.input_schema
    undeclared = islice(_undeclared(arguments, schema, SchemaReader(schema)), _MAX_COMPARED)
    return [
        f"{tool.server}.{tool.name} declares no key {quoted(key)}{place and f' in {quoted(place)}'}, which was sent "
        f"all the same; did you mean {quoted(meant)}?"
        for place, key, absent in undeclared
        if (meant := _meant_by(key, absent))
    ]


def _meant_by(key: str, absent: list[str]) -> str | None:
    lengths = range(round(0.6 * len(key)), min(_MAX_CHARACTERS, round(len(key) / 0.6)) + 1)  # others are less similar
    near = [it for it in absent if len(it) in lengths]
    meant = similar_name(key, near[:_MAX_NEAR])
    return meant if meant and _is_similar(key, meant) else None


def _is_similar(key: str, meant: str) -> bool:
    return SequenceMatcher(None, _letters(key), _letters(meant)).ratio() >= _MIN_SIMILARITY


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _undeclared(arguments: Any, schema: object, reader: SchemaReader) -> Iterator[tuple[str, str, list[str]]]:
    """Place and name of each key that an object does not declare, with the declared ones that it does not have."""
    waiting: list[tuple[str, Any, list[Flat]]] = [("", arguments, _forms(schema, reader))]
    left = _MAX_DECLARED
    for _ in range(_MAX_VALUES):
        if not waiting:
            return
        place, value, forms = waiting.pop()
        if isinstance(value, list):
            items = [form for flat in forms for form in _forms(flat.get("items"), reader)][:_MAX_FORMS]
            waiting += [
                (f"{place}[{number}]"[-_MAX_PLACE:], item, items)
                for number, item in enumerate(value[:_MAX_VALUES])
                if items and isinstance(item, (dict, list))
            ]
        elif isinstance(value, dict):
            left -= sum(len(properties_of(flat)) for flat in forms)
            if left < 0:
                return
            declared = {key: child for flat in reversed(forms) for key, child in properties_of(flat).items()}
            if declared and not any("patternProperties" in flat for flat in forms):
                others = [key for key in value if key not in declared and len(key) <= _MAX_CHARACTERS]
                absent = [key for key in declared if key not in value] if others else []
                yield from ((place, key, absent) for key in others if absent)
            waiting += [
                (f"{place}.{key}".lstrip(".")[-_MAX_PLACE:], inner, _forms(declared[key], reader))
                for key, inner in islice(value.items(), _MAX_VALUES)
                if key in declared and isinstance(inner, (dict, list))
            ]


def _forms(schema: object, reader: SchemaReader) -> list[Flat]:
    """The schema and its alternatives."""
    flat = reader.flat(schema)
    return [form for form in (flat, *map(reader.flat, branches_of(flat)[:_MAX_FORMS])) if form]
