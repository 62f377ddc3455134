"""Finds where a result contradicts its type, by kinds and field names, and describes it without any value.

The type is an observed shape or a declared schema; the result is given as its shape. Unspecified parts are never
contradicted, nor is a new field a contradiction, since programs do not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from codemode_server.catalog.json_schema import (
    SchemaReader,
    branches_of,
    enum_of,
    kinds_of,
    properties_of,
    required_of,
)
from codemode_server.catalog.shapes import Shape
from codemode_server.field_names import is_field_name

MAX_REPORTED = 5
"""Contradictions reported for one result."""
_MAX_DEPTH = 12
_PYTHON = {"object": "dict", "array": "list", "string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_NUMBERS = frozenset({"int", "float"})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One difference between a result and its type."""

    path: str
    """`[].labels`: in each item of a list, under the key `labels`; empty for the result itself."""
    expected: str
    """The type: kinds, or `always there`."""
    came: str
    """The result: a kind, or `missing`."""

    @property
    def may_be_token(self) -> bool:
        """Whether a privacy token in place of a number explains it."""
        return self.came == "str" and not _NUMBERS.isdisjoint(self.expected.split(" | "))

    @property
    def text(self) -> str:
        place = self.path or "it"
        return f"{place} is {self.came}" + ("" if self.came == "missing" else f", not {self.expected}")


def of_observed(known: Shape, new: Shape) -> tuple[Contradiction, ...]:
    """Differences between a new shape and all earlier ones."""
    return tuple(islice(_observed(known, new, ""), MAX_REPORTED))


def of_declared(root: object, schema: object, new: Shape) -> tuple[Contradiction, ...]:
    """Differences between a shape and a schema within `root`."""
    return tuple(islice(_declared(SchemaReader(root), schema, new, "", 0), MAX_REPORTED))


def _observed(known: Shape, new: Shape, path: str) -> Iterator[Contradiction]:
    if known.unread or not known.kinds:  # not read, or only None so far
        return
    expected = (*known.kinds, "None") if known.nulls else known.kinds
    yield from _wrong_kinds(frozenset(expected), " | ".join(expected), new, path)
    if known.items and new.items:
        yield from _observed(known.items, new.items, f"{path}[]")
    if not (known.dicts and new.dicts):
        return
    if not known.is_map and not new.is_map:
        required = (key for key in known.keys if known.is_required(key))
        yield from _missing(required, new, path)
        for key, inner in known.keys.items():
            if key in new.keys:
                yield from _observed(inner, new.keys[key], _within(path, key))
    elif known.is_map and known.others and new.is_map and new.others:
        yield from _observed(known.others, new.others, f"{path}{{}}")


def _declared(reader: SchemaReader, schema: object, new: Shape, path: str, depth: int) -> Iterator[Contradiction]:
    flat = reader.flat(schema)
    kinds = _kinds(reader, flat, 0)
    if kinds is None or depth > _MAX_DEPTH:
        return
    yield from _wrong_kinds(kinds, " | ".join(sorted(kinds, key=lambda kind: (kind == "None", kind))), new, path)
    branches = [reader.flat(branch) for branch in branches_of(flat)]
    if branches and not properties_of(flat):  # it is unknown which of several records applies
        records = [branch for branch in branches if kinds_of(branch) not in (["null"], [])]
        flat = records[0] if len(records) == 1 else {}
    items = flat.get("items")
    if new.items and isinstance(items, dict):
        yield from _declared(reader, items, new.items, f"{path}[]", depth + 1)
    if new.dicts and not new.is_map:
        yield from _missing(iter(required_of(flat)), new, path)
        for key, inner in properties_of(flat).items():
            if key in new.keys:
                yield from _declared(reader, inner, new.keys[key], _within(path, key), depth + 1)


def _kinds(reader: SchemaReader, flat: dict[str, object], depth: int) -> frozenset[str] | None:
    """The kinds that a schema allows; None for any."""
    null = {"None"} if flat.get("nullable") is True else set()
    if values := enum_of(flat):
        return frozenset({"None" if value is None else type(value).__name__ for value in values} | null)
    if kinds := kinds_of(flat):
        known = {"null": "None", **_PYTHON}
        return frozenset({known[kind] for kind in kinds} | null) if known.keys() >= set(kinds) else None
    found: set[str] = set(null)
    branches = branches_of(flat)[:50]
    for branch in branches:
        kinds_there = _kinds(reader, reader.flat(branch), depth + 1) if depth < _MAX_DEPTH else None
        if kinds_there is None:
            return None
        found |= kinds_there
    return frozenset(found) if branches else None


def _wrong_kinds(allowed: frozenset[str], expected: str, new: Shape, path: str) -> Iterator[Contradiction]:
    allowed = allowed | _NUMBERS if allowed & _NUMBERS else allowed
    for kind in (*new.kinds, *(("None",) if new.nulls else ())):
        if kind not in allowed:
            yield Contradiction(path, expected, kind)


def _missing(required: Iterator[str], new: Shape, path: str) -> Iterator[Contradiction]:
    for key in required:
        # A key that does not look like a field name may be among those that were not stored.
        if not new.is_required(key) and (is_field_name(key) or not new.others):
            yield Contradiction(_within(path, key), "always there", "missing")


def _within(path: str, key: str) -> str:
    return f"{path}.{key}" if key.isidentifier() else f'{path}["{key}"]'
