"""Turns a JSON value, or a text that is a table, into one text with marked parts, which is searched in a single pass.

Searching 50,000 short strings one by one costs ten times as much as searching them together. No pattern crosses the
NUL between two parts. A cell of a table in CSV is a part of its own with the name of its column, and stays where it is;
of a text that is JSON or base64, or has base64 in it, what that holds is searched (`encodings`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue
from codemode_server.privacy import date_parts, markup
from codemode_server.privacy.encodings import Wrapping, encoded_parts, may_be_wrapped, unwrapped
from codemode_server.privacy.evidence import is_document_field, may_tell_alone, schema_evidence
from codemode_server.privacy.findings import MAX_DEPTH, MAX_VALUES, Kind, Place
from codemode_server.privacy.renamed_fields import NO_RENAMES, Renamed, RenamedFields
from codemode_server.privacy.tables import (
    COLUMNS_KEYS,
    NEUTRAL_KEYS,
    VALUE_KEYS,
    cells_in,
    columns_of,
    first_texts,
    header_of,
    is_cell,
    label_of,
    labels_of,
)

_SEPARATOR = "\x00"
_MIN_NUMBER = 100_000
_MAX_NAME_CHARACTERS = 16
"""A longer key may be a credential, although it is an identifier."""
_MIN_KEY_DIGITS = 4
"""A key with so many digits may be the number of an account or an identity card."""
_MAX_KNOWN_KEYS = 64
_FULL_NAME = "full_name"
_DIGIT = re.compile("[0-9]")
Path = tuple[Any, Any] | None
"""The path of the value around it, and the step from there; None for the whole value."""
Schema = dict[str, Any] | None


class Part(NamedTuple):
    """One string, key, number or cell, with what is known about it."""

    start: int
    """Where it begins in the searched text."""
    end: int
    offset: int
    """Where it begins in its own string: above 0 for a cell of a table."""
    path: Path
    name: str
    """Of its field or column; empty if it has none."""
    says: Kind | None
    """What the format in the schema says."""
    is_beside_person: bool
    """Whether another field beside it is one of a person."""
    is_key: bool
    is_number: bool
    renamed: Renamed | None = None
    """What its field is in the data that a query has read."""

    @property
    def tells_alone(self) -> bool:
        """Whether the name of its field may say what it is, without a syntax of its own."""
        return self.renamed is not None or (bool(self.name) and may_tell_alone(self.name))

    @property
    def column(self) -> tuple[str, int]:
        """The same for the values of one field in the rows of a list, as long as the parts live."""
        row = self.path[0] if self.path else None
        return self.name, id(row[0]) if row else 0

    @property
    def place(self) -> Place:
        steps: list[str | int | tuple[int, int]] = []
        path = self.path
        while path is not None:
            path, step = path
            steps.append(step)
        return tuple(reversed(steps))


@dataclass
class SearchedText:
    """The text and its parts, in order."""

    text: str
    starts: list[int]
    parts: list[Part]
    telling: list[Part] = field(default_factory=list)
    """Those whose names may say what they are, without a syntax of their own."""
    is_complete: bool = True
    fields: RenamedFields = NO_RENAMES

    def part_at(self, position: int) -> Part:
        return self.parts[max(0, bisect_right(self.starts, position) - 1)]


def searched_text(text: str, name: str = "", fields: RenamedFields = NO_RENAMES) -> SearchedText:
    """A text on its own."""
    builder = _Builder(fields)
    builder.text(text, None, _Surroundings(name))
    return builder.done()


def searched_value(
    value: JsonValue, schema: dict[str, Any] | None = None, fields: RenamedFields = NO_RENAMES
) -> SearchedText:
    """All strings, keys and long numbers of a JSON value. `schema` describes the value."""
    builder = _Builder(fields)
    builder.visit(value, None, _Surroundings(columns=fields.columns, schema=schema))
    return builder.done()


class _Keys(NamedTuple):
    """What the keys of an object say, before its values are looked at."""

    known: tuple[tuple[str, bool], ...]
    """Each key, and whether it may be personal data itself."""
    is_person: bool
    has_values: bool
    """Whether one of them says nothing, so that what is below it belongs to another name."""
    has_columns: bool
    has_dates: bool
    """Whether they may be those of a date, or of what holds one."""
    are_indexes: bool
    """Whether all are numbers, so that they name no fields."""


def _read_keys(keys: tuple[str, ...], fields: RenamedFields = NO_RENAMES) -> _Keys:
    known = tuple((key, _is_searched(key)) for key in keys)
    is_person = any(map(fields.describes_person, keys))
    has_values = not NEUTRAL_KEYS.isdisjoint(keys)
    has_dates = any(key in date_parts.NEUTRAL_KEYS or key.casefold() in date_parts.PARTS for key in keys)
    are_indexes = all(map(str.isdecimal, keys))
    return _Keys(known, is_person, has_values, not COLUMNS_KEYS.isdisjoint(keys), has_dates, are_indexes)


_known_keys = lru_cache(2048)(_read_keys)
"""Rows of one list have the same keys."""


def _is_searched(key: str) -> bool:
    """Whether a key may be personal data itself."""
    return not key.isidentifier() or len(key) > _MAX_NAME_CHARACTERS or len(_DIGIT.findall(key)) >= _MIN_KEY_DIGITS


class _Surroundings(NamedTuple):
    """What is known about a value from what is around it."""

    name: str = ""
    """Of its field or column; empty if it has none."""
    is_beside_person: bool = False
    columns: tuple[str, ...] = ()
    """Those of a table in which the value is, as long as it is in no row of it."""
    schema: Schema = None
    depth: int = 0


class _Builder:
    def __init__(self, fields: RenamedFields) -> None:
        self._fields = fields
        self._keys: dict[tuple[str, ...], _Keys] = {}
        """Of renamed fields, which mean something in this value only."""
        self._pieces: list[str] = []
        self._starts: list[int] = []
        self._parts: list[Part] = []
        self._telling: list[Part] = []
        self._length = 0
        self._count = 0
        self._is_complete = True

    def done(self) -> SearchedText:
        text = _SEPARATOR.join(self._pieces)
        return SearchedText(text, self._starts, self._parts, self._telling, self._is_complete, self._fields)

    def visit(self, item: Any, path: Path, around: _Surroundings) -> None:
        kind = type(item)
        if kind is str:
            if item:
                self.text(item, path, around)
        elif kind is dict or kind is list:
            self._count += len(item)
            if self._count > MAX_VALUES or around.depth >= MAX_DEPTH:
                self._is_complete = False
            elif kind is dict:
                self._object(item, path, around)
            else:
                self._list(item, path, around)
        elif kind is int or kind is float:
            self._number(item, path, around)

    def _keys_of(self, item: dict[str, Any]) -> _Keys:
        keys = tuple(item)
        if len(keys) > _MAX_KNOWN_KEYS:
            return _read_keys(keys, self._fields)
        if not self._fields:
            return _known_keys(keys)
        if (known := self._keys.get(keys)) is None:
            known = self._keys[keys] = _read_keys(keys, self._fields)
        return known

    def _object(self, item: dict[str, Any], path: Path, around: _Surroundings) -> None:
        name, beside, columns, schema, depth = around
        about = _member(schema, "properties") or _NOTHING
        known, is_person, has_values, has_columns, has_dates, are_indexes = self._keys_of(item)
        is_birth = has_dates and bool(name) and date_parts.is_birth_field(name)
        if is_birth and (date := date_parts.date_of_object(item)):
            self._add(date, path, around)
            return
        if is_person and type(full := item.get(_FULL_NAME)) is str and "/" in full:  # of a repository
            is_person = any(map(self._fields.describes_person, item.keys() - {_FULL_NAME}))
        label = label_of(item, self._fields) if has_values else ""
        header, own = columns_of(item, self._fields) if has_columns else ("", ())
        columns = own or (() if columns == self._fields.columns and not set(columns).isdisjoint(item) else columns)
        for (key, is_searched), child in zip(known, item.values(), strict=True):
            inner, near = key, is_person
            if has_values and not is_person and (key in VALUE_KEYS or (key == "title" and type(child) is list)):
                inner = (label if child != label else "") or name or key
                near = beside
            elif label and child == label:
                inner = ""
            if are_indexes:
                inner, near = name, beside
            elif (is_birth and key in date_parts.NEUTRAL_KEYS) or (key == "number" and is_document_field(name)):
                inner = name
            place = (path, key)
            if is_searched:
                self._add(key, place, _NOWHERE, is_key=True)
            if key == header and header:
                self.visit(child, place, _Surroundings("", near, depth=depth + 1))
            elif type(child) is str:
                if child:
                    self.text(child, place, _Surroundings(inner, near, (), about.get(key), depth + 1))
            elif child is not None and child is not True and child is not False:
                self.visit(child, place, _Surroundings(inner, near, columns, about.get(key), depth + 1))

    def _list(self, rows: list[Any], path: Path, around: _Surroundings) -> None:
        if not rows:
            return
        columns = around.columns
        if len(rows) == 3 and date_parts.is_birth_field(around.name) and (date := date_parts.date_of_list(rows)):
            self._add(date, path, around)
            return
        first, inner = rows[0], around._replace(schema=_member(around.schema, "items"), depth=around.depth + 1)
        is_record = type(first) is dict and columns == self._fields.columns
        if columns and len(columns) == len(rows) and is_cell(first) and not is_record:
            self._row(rows, path, columns, inner.depth)
            return
        if len(columns) == 1 and not around.name and is_cell(first):
            inner = inner._replace(name=columns[0])
        if type(first) is dict:
            if not around.is_beside_person and not VALUE_KEYS.isdisjoint(first):
                inner = inner._replace(
                    is_beside_person=any(self._fields.describes_person(label_of(row, self._fields)) for row in rows)
                )
        elif (type(first) is list or (len(rows) > 1 and type(rows[1]) is list)) and (
            columns or any(map(self._fields.has_evidence, first_texts(rows)))
        ):
            self._rows(rows, path, inner)
            return
        for at, row in enumerate(rows):
            self.visit(row, (path, at), inner)

    def _rows(self, rows: list[Any], path: Path, around: _Surroundings) -> None:
        """Lists in a list, of which the first may be a header."""
        columns, depth, begin = around.columns, around.depth, -1
        beside = around.is_beside_person
        labels: list[str] = []
        if columns and columns == self._fields.columns and _is_row_of(rows[0], columns):  # a value may be an alias too
            begin = 0 if [str(it).casefold() for it in rows[0]] == [*columns] else -1
        elif labels := labels_of(rows, self._fields):
            beside = any(map(self._fields.describes_person, labels))
        elif found := header_of(rows, self._fields):
            begin, columns = found
        for at, row in enumerate(rows):
            here = (path, at)
            if type(row) is not list or not (labels or columns):
                self.visit(row, here, around._replace(is_beside_person=beside, columns=()))
            elif labels:
                is_pair = len(row) == 2 and type(row[0]) is str
                for number, cell in enumerate(row):
                    name = row[0] if is_pair and number else ""
                    self.visit(cell, (here, number), _Surroundings(name, beside, depth=depth))
            else:
                self._count += len(row)
                self._row(row, here, columns if at > begin else (), depth)

    def _row(self, row: list[Any], path: Path, columns: tuple[str, ...], depth: int) -> None:
        beside = any(map(self._fields.describes_person, columns))
        for at, cell in enumerate(row):
            name = columns[at] if at < len(columns) else ""
            self.visit(cell, (path, at), _Surroundings(name, beside, depth=depth))

    def text(self, text: str, path: Path, around: _Surroundings) -> None:
        if may_be_wrapped(text) and (found := unwrapped(text)) is not None:
            wrapping, inner = found
            depth = around.depth + 1
            if wrapping is Wrapping.JSON:
                held = _Surroundings(around.name, around.is_beside_person, depth=depth)
                self.visit(inner, (path, wrapping), held)
                return
            self.text(inner, (path, wrapping), _Surroundings(depth=depth))
        for step, inner in encoded_parts(text):
            self.text(inner, (path, step), _Surroundings(depth=around.depth + 1))
        cells = cells_in(text, self._fields) if "\n" in text and text[0] != "<" else None
        if cells is None and markup.MARK in text:
            cells = markup.named_in(text, self._fields)
        if cells is not None:
            self._table(text, path, cells)
        else:
            self._add(text, path, around)

    def _table(self, text: str, path: Path, cells: Iterable[tuple[int, int, str, bool]]) -> None:
        start = self._length
        self._length += len(text) + 1
        self._pieces.append(text)
        for begin, end, column, near in cells:
            self._note(Part(start + begin, start + end, begin, path, column, None, near, False, False))

    def _number(self, number: float, path: Path, around: _Surroundings) -> None:
        if isinstance(number, float):
            if not number.is_integer():
                if abs(number) >= 1:
                    self._add(str(number), path, around, is_number=True)
                return
            number = int(number)
        if number >= _MIN_NUMBER or number <= -_MIN_NUMBER:
            self._add(str(number), path, around, is_number=True)

    def _add(
        self, text: str, path: Path, around: _Surroundings, *, is_key: bool = False, is_number: bool = False
    ) -> None:
        start = self._length
        end = start + len(text)
        self._length = end + 1
        self._pieces.append(text)
        says = _format_of(around.schema) if around.schema else None
        self._note(Part(start, end, 0, path, around.name, says, around.is_beside_person, is_key, is_number))

    def _note(self, part: Part) -> None:
        if self._fields and not part.is_key and (renamed := self._fields.of(part.name)) is not None:
            part = part._replace(renamed=renamed)
        self._starts.append(part.start)
        self._parts.append(part)
        if part.tells_alone:
            self._telling.append(part)


def _is_row_of(row: Any, columns: tuple[str, ...]) -> bool:
    return type(row) is list and len(row) == len(columns)


_NOWHERE = _Surroundings()
_NOTHING: dict[str, Any] = {}


def _member(schema: Any, name: str) -> dict[str, Any] | None:
    found = schema.get(name) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else None


def _format_of(schema: Any) -> Kind | None:
    found = schema.get("format") if isinstance(schema, dict) else None
    return schema_evidence(found) if isinstance(found, str) else None
