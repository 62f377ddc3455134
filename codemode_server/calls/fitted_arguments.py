"""Writes the arguments of a call as the schema of the tool takes them: the one place for this, used by the check before
a program runs, by every call, and where values replace privacy tokens. Pure.

Left out is a null for an optional argument, or key of an object within, that may not be null; a whole float becomes an
integer where only integers are taken. What JSON has several forms for (decimals, dates, the value of a token, which one
result had as a text and another as a number) has the form that is taken there; where the schema allows several, or
says nothing, it stays as it came. Bytes, which come as base64, are sent as text if they are text and neither the schema
nor the name of the parameter speaks of an encoding. Others are refused where the name means text: a server would write
the base64 into the file, and say that all is well.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.json_schema import (
    Flat,
    Members,
    SchemaReader,
    branches_of,
    enum_of,
    kinds_of,
    members_of,
    tuple_of,
)
from codemode_server.domain.errors import InvalidArguments

_MAX_ALTERNATIVES, _MAX_DEPTH = 50, 12
"""Beyond these, the rest of a schema allows any type."""
_ENCODED = re.compile("base64|b64|^byte$|^binary$", re.IGNORECASE)
"""What formats, names and descriptions call texts that stand for bytes."""
_TEXT = re.compile("(file_?)?(contents?|text|body|html|markdown|message)", re.IGNORECASE)
"""Names of parameters for text."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
Path = tuple[str | int, ...]
Forms = Mapping[str, Any]
"""A value by `string`, `number`, or the format in which a text has it (`date`, `date-time`, `duration`); `base64` is
there if the text is the base64 of bytes."""


def fitted_arguments(tool: Tool, arguments: dict[str, Any], forms: Iterable[tuple[Path, Forms]] = ()) -> dict[str, Any]:
    """The arguments as the tool takes them. `forms`: other forms of a text, by the keys and indices that lead to it.
    Raises `InvalidArguments` for bytes that are no text where text is meant."""
    known = {tuple(path): form for path, form in forms}
    if not known and not _may_change(arguments):
        return arguments
    fit = _Fit(SchemaReader(tool.input.schema), known)
    return fit.members(arguments, tool.input.members, tool.input.schema, (), 0)


def fitted_value(value: Any, schema: object, forms: Mapping[Path, Forms]) -> Any:
    """A value as its schema takes it; `forms` as above."""
    return _Fit(SchemaReader(schema), forms).value(value, schema, (), 0)


def _may_change(value: Any) -> bool:
    """True if there is something in a value that a schema may want otherwise."""
    if isinstance(value, dict):
        return any(map(_may_change, value.values()))
    if isinstance(value, list):
        return any(map(_may_change, value))
    return value is None or (isinstance(value, float) and value.is_integer())


@dataclass(frozen=True, slots=True)
class _Taken:
    """The types and formats that a schema takes."""

    kinds: frozenset[str]
    """JSON types; empty for any."""
    formats: frozenset[str]
    is_nullable: bool
    is_encoded: bool
    """True if its texts stand for bytes."""


class _Fit:
    """Writes values as the schemas of one tool take them. Each schema is read once."""

    def __init__(self, reader: SchemaReader, forms: Mapping[Path, Forms]) -> None:
        self._reader = reader
        self._forms = forms
        self._taken: dict[int, tuple[Any, _Taken]] = {}
        self._members: dict[int, tuple[Any, Members, Flat]] = {}
        self._items: dict[int, tuple[Any, list[Any]]] = {}

    def value(self, value: Any, schema: Any, path: Path, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, dict):
            if id(schema) not in self._members:
                flat = self._reader.flat(schema)
                self._members[id(schema)] = (schema, members_of(self._reader, schema), flat)
            _, members, flat = self._members[id(schema)]
            return self.members(value, members, flat, path, depth)
        if isinstance(value, list):
            if id(schema) not in self._items:
                self._items[id(schema)] = (schema, _items([flat for flat, _ in _alternatives(schema, self._reader)]))
            items = self._items[id(schema)][1]
            return [
                self.value(it, items[min(at, len(items) - 1)], (*path, at), depth + 1) for at, it in enumerate(value)
            ]
        return self._scalar(value, schema, path)

    def members(self, value: dict[str, Any], members: Members, flat: Flat, path: Path, depth: int) -> dict[str, Any]:
        """An object without the nulls that it may lack."""
        others = flat.get("additionalProperties")
        made: dict[str, Any] = {}
        for key, it in value.items():
            schema = members.schemas.get(key, others)
            if it is None and key not in members.required and not self._takes(schema).is_nullable:
                continue
            made[key] = self.value(it, schema, (*path, key), depth + 1)
        return made

    def _scalar(self, value: Any, schema: Any, path: Path) -> Any:
        if isinstance(value, float) and value.is_integer():
            kinds = self._takes(schema).kinds
            return int(value) if "integer" in kinds and "number" not in kinds else value
        if not (forms := self._forms.get(path)):
            return value
        taken = self._takes(schema)
        if "base64" in forms and isinstance(value, str):
            is_plain = "string" in taken.kinds and not (
                taken.is_encoded or any(_ENCODED.search(str(it)) for it in path)
            )
            return _decoded(value, path) if is_plain else value
        takes_text, takes_number = "string" in taken.kinds, bool(taken.kinds & {"number", "integer"})
        if takes_text and not takes_number:
            formats = [name for name in taken.formats if name in forms]
            return forms[formats[0]] if len(taken.formats) == 1 and formats else forms.get("string", value)
        number = forms.get("number")
        is_fit = number is not None and ("number" in taken.kinds or isinstance(number, int))
        return number if takes_number and not takes_text and is_fit else value

    def _takes(self, schema: Any) -> _Taken:
        if id(schema) not in self._taken:
            self._taken[id(schema)] = (schema, _taken_by(schema, self._reader))
        return self._taken[id(schema)][1]


def _taken_by(schema: Any, reader: SchemaReader) -> _Taken:
    alternatives = _alternatives(schema, reader)
    named = [(flat, kinds) for flat, kinds in alternatives if kinds or not branches_of(flat)]
    is_any = not named or not all(kinds for _, kinds in named)
    formats = {str(flat["format"]) for flat, _ in named if "format" in flat}
    nulls = (None in enum_of(flat) if enum_of(flat) else not kinds or "null" in kinds for flat, kinds in named)
    kinds = frozenset[str]().union(*(kinds for _, kinds in named))
    about = (str(flat.get(key)) for flat, _ in alternatives for key in ("format", "title", "description"))
    is_encoded = any("contentEncoding" in flat for flat, _ in alternatives) or any(map(_ENCODED.search, about))
    return _Taken(frozenset() if is_any else kinds, frozenset(formats), not named or any(nulls), is_encoded)


def _decoded(text: str, path: Path) -> str:
    """The text whose UTF-8 this is in base64; the same if it is no text. Raises `InvalidArguments`."""
    try:
        decoded = base64.b64decode(text, validate=True).decode()
        if not _CONTROL.search(decoded):
            return decoded
    except ValueError:
        pass
    name = next((it for it in reversed(path) if isinstance(it, str)), "")
    if _TEXT.fullmatch(name):
        raise InvalidArguments(
            f"{name!r} takes text, and these bytes are none. Save them in /workspace; show(path) gives the user the "
            "file; if the tool takes base64, give it base64.b64encode(data).decode()"
        )
    return text


def _alternatives(schema: Any, reader: SchemaReader) -> list[tuple[Flat, list[str]]]:
    """A schema and all its alternatives, each with the JSON types that it or the schema around it names, none where it
    allows any; empty, which allows anything, if they are too many."""
    found: list[tuple[Flat, list[str]]] = []
    waiting: list[tuple[Any, list[str]]] = [(schema, [])]
    while waiting and len(found) < _MAX_ALTERNATIVES:
        schema, kinds_around = waiting.pop()
        flat = reader.flat(schema)
        kinds = kinds_of(flat) or kinds_around
        found.append((flat, kinds))
        waiting += [(it, kinds) for it in branches_of(flat)]
    return [] if waiting else found


def _items(flats: list[Flat]) -> list[Any]:
    """The schemas of a list's items by position; the last one is that of all others. None allows any value."""
    tuples = [tuple_of(flat) for flat in flats]
    made: list[Any] = []
    for at in range(max(map(len, tuples), default=0) + 1):
        items = (it[at] if at < len(it) else flat.get("items") for it, flat in zip(tuples, flats, strict=True))
        schemas = [it for it in items if isinstance(it, dict | bool)]
        made.append({"anyOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else None)
    return made
