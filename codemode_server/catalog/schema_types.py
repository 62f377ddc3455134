"""Converts JSON Schema to the Python types of stubs: `Literal`, `list`, `dict`, `TypedDict`, `|`.

Types are as narrow as Python allows; constraints that they can't express become notes. Depth and size are bounded:
parts beyond the bounds are `Any`. Only checked identifiers and literals of the schema enter the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import count
from typing import Any

from codemode_server.catalog.json_schema import (
    Flat,
    SchemaReader,
    branches_of,
    enum_of,
    facts_of,
    is_mere_reference,
    kinds_of,
    members_of,
    properties_of,
    tuple_of,
)
from codemode_server.catalog.naming import KEYWORDS, STUB_NAMES, is_plain_identifier, singular_of, words
from codemode_server.catalog.untrusted import is_small, literal, one_line

MAX_LITERALS = 100
"""Maximum number of enum values written out; a larger enum is shown as its type with a count."""
_LITERAL_CHARACTERS = 3_000
_MAX_NODES = 3_000
"""Maximum number of nodes read of one tool's schemas; the largest real tool has about a thousand."""
_MAX_DEPTH = 12
_MORE_KEYS = frozenset({"anyOf", "oneOf", "if", "not", "patternProperties"})
"""Keywords beside which an object may have more keys than its properties."""
_COMMENT_CHARACTERS = 300
FILE = "codemode.File"
"""A kind in addition to those of JSON: bytes, which programs receive as `File` objects."""
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", FILE: "File"}
_TYPE_NAMES = frozenset({"str", "int", "float", "bool", "list", "dict", "File"}) | STUB_NAMES

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class PyType:
    names: tuple[str, ...] = ()
    literals: tuple[Scalar, ...] = ()
    is_nullable: bool = False
    classes: frozenset[str] = frozenset()

    def __str__(self) -> str:
        parts = list(self.names)
        if "Any" in parts:
            return "Any"
        if self.literals:
            parts.insert(0, f"Literal[{', '.join(literal(value) for value in self.literals)}]")
        if self.is_nullable:
            parts.append("None")
        return " | ".join(parts) or "Any"

    def takes(self, value: object) -> bool:
        """True if a type checker accepts this scalar, as it must for a parameter's default."""
        if value is None:
            return self.is_nullable or "Any" in self.names
        if not isinstance(value, Scalar | float) or not is_small(value):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if any(type(value) is type(known) and value == known for known in self.literals):
            return True
        kind = type(value).__name__
        return kind in self.names or "Any" in self.names or (kind == "int" and "float" in self.names)


ANY = PyType(names=("Any",))


@dataclass(frozen=True, slots=True)
class _Field:
    key: str
    type: PyType
    is_required: bool
    comment: str


@dataclass(frozen=True, slots=True)
class _Class:
    name: str
    fields: tuple[_Field, ...]
    comment: str

    def source(self, known: Set[str], taken: Set[str]) -> str:
        """The class definition; references to classes that are not `known` yet are quoted."""
        total = "" if any(field.is_required for field in self.fields) else ", total=False"
        rows = [(field, _quoted(field, known, needs_mark=not total)) for field in self.fields]
        head = f"  # {self.comment}" if self.comment else ""
        if all(is_plain_identifier(field.key) and field.key not in taken for field in self.fields):
            lines = [f"class {self.name}(TypedDict{total}):{head}"]
            lines += [f"    {field.key}: {text}{_comment(field)}" for field, text in rows]
            return "\n".join(lines)
        # Keys that are not identifiers, or that would shadow a type in the lines below.
        lines = [f'{self.name} = TypedDict("{self.name}", {{{head}']
        lines += [f"    {literal(field.key)}: {text},{_comment(field)}" for field, text in rows]
        return "\n".join([*lines, f"}}{total})"])


class TypeWriter:
    def __init__(self, root: object, reserved: Iterable[str] = ()) -> None:
        self._reader = SchemaReader(root)
        self._names = {*STUB_NAMES, *KEYWORDS, "File", *reserved}
        self._classes: list[_Class] = []
        self._by_content: dict[tuple[object, ...], PyType] = {}
        self._is_closed: dict[str, bool] = {}
        self._by_reference: dict[str, PyType] = {}
        self._nodes = _MAX_NODES

    def read(self, root: object) -> None:
        """Continues with another root schema, against which references are resolved."""
        self._reader = SchemaReader(root)
        self._by_reference = {}

    def flat(self, schema: object) -> Flat:
        return self._reader.flat(schema)

    @property
    def open_classes(self) -> frozenset[str]:
        return frozenset(found.name for found in self._classes if found.comment)

    @property
    def closed_classes(self) -> frozenset[str]:
        return frozenset(name for name, is_closed in self._is_closed.items() if is_closed)

    @property
    def class_count(self) -> int:
        return len(self._classes)

    @property
    def fields(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Key and type of the fields of each TypedDict; `?` follows a key that may be missing."""
        return {
            one.name: tuple((f"{it.key}{'' if it.is_required else '?'}", str(it.type)) for it in one.fields)
            for one in self._classes
        }

    def classes_source(self) -> list[str]:
        """The TypedDicts in order of dependency, except for cycles."""
        taken = _TYPE_NAMES | {found.name for found in self._classes}
        known: set[str] = set()
        sources = []
        for found in self._classes:
            sources.append(found.source(known, taken))
            known.add(found.name)
        return sources

    def type_of(self, schema: object, hint: str, depth: int = 0) -> PyType:
        self._nodes -= 1
        if self._nodes < 0 or depth > _MAX_DEPTH or not isinstance(schema, dict):
            return ANY
        if is_mere_reference(schema):
            return self._referenced(schema, depth)
        return self._typed(self._reader.flat(schema), hint, depth)

    def _referenced(self, schema: Flat, depth: int) -> PyType:
        reference = schema["$ref"]
        if reference not in self._by_reference:
            hint = reference.rsplit("/", 1)[-1]
            flat = self._reader.flat({"$ref": reference})
            # A recursive reference resolves to the class to come, or to no type.
            self._by_reference[reference] = ANY
            if _is_record(flat):
                name = self._unused_name(hint)
                self._by_reference[reference] = PyType(names=(name,), classes=frozenset({name}))
                self._by_reference[reference] = self._record(flat, name, depth)
            else:
                self._by_reference[reference] = self._typed(flat, hint, depth)
        return self._by_reference[reference]

    def _typed(self, flat: Flat, hint: str, depth: int) -> PyType:
        nullable = PyType(is_nullable=True) if flat.get("nullable") is True else PyType()
        values = enum_of(flat)
        if values:
            return union(_literals(values), nullable)
        kinds = kinds_of(flat)
        branches = [branch for branch in branches_of(flat) if _says_a_type(branch)]
        if branches and not properties_of(flat) and not set(kinds) & {*_SCALARS, "array"}:
            titles = [branch.get("title") if isinstance(branch, dict) else None for branch in branches]
            hints = [title if isinstance(title, str) and 0 < len(title) <= 40 else hint for title in titles]
            found = (self.type_of(branch, own, depth + 1) for branch, own in zip(branches, hints, strict=True))
            return union(*found, nullable)
        if not kinds:
            return ANY
        return union(*(self._of_kind(kind, flat, hint, depth) for kind in kinds), nullable)

    def _of_kind(self, kind: str, flat: Flat, hint: str, depth: int) -> PyType:
        if kind == "null":
            return PyType(is_nullable=True)
        if kind == "array":
            return self._array(flat, hint, depth)
        if kind == "object":
            return self._object(flat, hint, depth)
        return PyType(names=(_SCALARS[kind],)) if kind in _SCALARS else ANY

    def _array(self, flat: Flat, hint: str, depth: int) -> PyType:
        """A list. JSON has no tuples, so the item type of a tuple is the union of its members."""
        members = [member for member in (tuple_of(flat) or [flat.get("items")]) if member is not False]
        item = union(*(self.type_of(member, singular_of(hint), depth + 1) for member in members))
        return PyType(names=(f"list[{item}]",), classes=item.classes)

    def _object(self, flat: Flat, hint: str, depth: int) -> PyType:
        if _is_record(flat):
            return self._record(flat, self._unused_name(hint), depth)
        patterns = flat.get("patternProperties")
        members = list(patterns.values()) if isinstance(patterns, dict) else []
        if isinstance(flat.get("additionalProperties"), dict):
            members.append(flat["additionalProperties"])
        item = union(*(self.type_of(member, singular_of(hint), depth + 1) for member in members))
        return PyType(names=(f"dict[str, {item}]",), classes=item.classes)

    def _record(self, flat: Flat, name: str, depth: int) -> PyType:
        self._names.add(name)
        members = members_of(self._reader, flat)
        fields = []
        for key, schema in members.schemas.items():
            if self._nodes < 0 or not _is_sendable(key):
                continue
            found = self.type_of(schema, key, depth + 1)
            fields.append(_Field(key, found, key in members.required, self.note(schema, found, _COMMENT_CHARACTERS)))
        if not fields:
            return PyType(names=("dict[str, Any]",))
        more = flat.get("additionalProperties")
        comment = "other keys are allowed" if more is True or (isinstance(more, dict) and not more) else ""
        if isinstance(more, dict) and more:
            comment = f"other keys: {self.type_of(more, name, depth + 1)}"
        content = (tuple(fields), comment)
        if (known := self._by_content.get(content)) is not None:
            self._names.discard(name)
            (name,) = known.names
        else:
            self._classes.append(_Class(name, tuple(fields), comment))
            known = self._by_content[content] = PyType(names=(name,), classes=frozenset({name}))
        is_closed = more is False and len(fields) == len(properties_of(flat)) and _MORE_KEYS.isdisjoint(flat)
        self._is_closed[name] = is_closed and self._is_closed.get(name, True)
        return known

    def note(self, schema: object, found: PyType, limit: int) -> str:
        flat = self._reader.flat(schema)
        said = one_line(flat.get("description"), limit)
        has_values = bool(found.literals) or found == PyType(is_nullable=True)
        facts = facts_of(_sole_branch(flat, self._reader), said, has_values=has_values)
        return f"{said} [{'; '.join(facts)}]".lstrip() if facts else said

    def _unused_name(self, hint: str) -> str:
        base = "".join(word[:1].upper() + word[1:] for word in words(hint))[:40]
        if not base.isidentifier() or not is_plain_identifier(base):
            base = f"Item{base}" if is_plain_identifier(f"Item{base}") else "Item"
        if base not in self._names:
            return base
        return next(name for name in (f"{base}{number}" for number in count(2)) if name not in self._names)


def union(*types: PyType) -> PyType:
    """The union of types; `Any` absorbs all, `float` absorbs `int`."""
    names = list(dict.fromkeys(name for member in types for name in member.names))
    if "Any" in names or not any(member.names or member.literals or member.is_nullable for member in types):
        return ANY
    if "float" in names and "int" in names:
        names.remove("int")
    literals = {(type(value), value): value for member in types for value in member.literals}
    return PyType(
        names=tuple(names),
        literals=tuple(literals.values()),
        is_nullable=any(member.is_nullable for member in types),
        classes=frozenset().union(*(member.classes for member in types)),
    )


def _literals(values: list[Any]) -> PyType:
    """A `Literal` of the values, or their types if they are too many or not allowed in `Literal`."""
    spelt = [value for value in values if isinstance(value, Scalar) and _is_sendable(value) and is_small(value)]
    is_nullable = None in values
    size = sum(len(value) if isinstance(value, str) else 4 for value in spelt)
    if len(spelt) + is_nullable == len(values) and len(spelt) <= MAX_LITERALS and size <= _LITERAL_CHARACTERS:
        return union(PyType(literals=tuple(spelt), is_nullable=is_nullable))
    kinds = {str: "str", bool: "bool", int: "int", float: "float", dict: "dict[str, Any]", list: "list[Any]"}
    names = dict.fromkeys(kinds.get(type(value), "Any") for value in values if value is not None)
    return union(PyType(names=tuple(names), is_nullable=is_nullable))


def _is_record(flat: Flat) -> bool:
    return bool(properties_of(flat)) and kinds_of(flat) == ["object"] and not enum_of(flat)


def _says_a_type(branch: object) -> bool:
    """False for a branch that only constrains, such as `{"required": ["a"]}`."""
    return isinstance(branch, bool) or (
        isinstance(branch, dict) and (not branch or not branch.keys().isdisjoint(_TYPING_KEYS))
    )


_TYPING_KEYS = frozenset(
    {"$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf", "items", "prefixItems"}
    | {"properties", "additionalProperties", "patternProperties"}
)


def _sole_branch(flat: Flat, reader: SchemaReader) -> Flat:
    """The schema X of `X | null`, which many generators write for optional values."""
    branches = [branch for branch in branches_of(flat) if branch != {"type": "null"}]
    return {**reader.flat(branches[0]), **flat} if len(branches) == 1 else flat


def _is_sendable(value: object) -> bool:
    """False for text with a lone surrogate, which UTF-8 can't encode."""
    return not isinstance(value, str) or value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def _quoted(field: _Field, known: Set[str], *, needs_mark: bool) -> str:
    text = str(field.type)
    if not field.type.classes <= known:
        text = literal(text)
    return f"NotRequired[{text}]" if needs_mark and not field.is_required else text


def _comment(field: _Field) -> str:
    return f"  # {field.comment}" if field.comment else ""
