"""Turns a JSON value, or a text that is a table, into one text with marked parts, which is searched in a single pass.

Searching 50,000 short strings one by one costs ten times as much as searching them together. No pattern crosses the
NUL between two parts. A cell of a table in CSV is a part of its own with the name of its column, and stays where it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue
from codemode_server.privacy.evidence import describes_person, schema_evidence
from codemode_server.privacy.findings import MAX_DEPTH, MAX_VALUES, Kind, Place

_SEPARATOR = "\x00"
_MIN_NUMBER_DIGITS = 6
_MAX_NAME_CHARACTERS = 16
"""A longer key may be a credential, although it is an identifier."""
_MAX_COLUMNS = 200
_MAX_HEADER_CHARACTERS = 4_000
_TABLE_SEPARATORS = ",;\t|"
_MIN_TABLE_ROWS = 2
_COLUMN = re.compile(r"[^\W\d_][\w .()/#%-]{0,60}")


class Part(NamedTuple):
    """One string, key, number or cell, with what is known about it."""

    start: int
    """Where it begins in the searched text."""
    end: int
    offset: int
    """Where it begins in its own string: above 0 for a cell of a table."""
    place: Place
    name: str
    """Of its field or column; empty if it has none."""
    says: Kind | None
    """What the format in the schema says."""
    is_beside_person: bool
    """Whether another field beside it is one of a person."""
    is_key: bool


@dataclass
class SearchedText:
    """The text and its parts, in order."""

    text: str = ""
    parts: list[Part] = field(default_factory=list)
    is_complete: bool = True
    _starts: list[int] = field(default_factory=list)

    def part_at(self, position: int) -> Part:
        if not self._starts:
            self._starts = [part.start for part in self.parts]
        return self.parts[max(0, bisect_right(self._starts, position) - 1)]


def searched_text(text: str, name: str = "") -> SearchedText:
    """A text on its own."""
    builder = _Builder()
    builder.add(text, (), name, None, is_beside_person=False, is_key=False)
    return builder.done()


def searched_value(value: JsonValue, schema: dict[str, Any] | None = None) -> SearchedText:
    """All strings, keys and long numbers of a JSON value. `schema` describes the value."""
    builder = _Builder()
    builder.walk(value, schema)
    return builder.done()


class _Builder:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._parts: list[Part] = []
        self._length = 0
        self._is_complete = True

    def done(self) -> SearchedText:
        return SearchedText(_SEPARATOR.join(self._pieces), self._parts, self._is_complete)

    def add(
        self, text: str, place: Place, name: str, says: Kind | None, *, is_beside_person: bool, is_key: bool
    ) -> None:
        start = self._length
        self._pieces.append(text)
        self._length += len(text) + len(_SEPARATOR)
        whole = Part(start, start + len(text), 0, place, name, says, is_beside_person, is_key)
        cells = _cells(text) if "\n" in text and not is_key else None
        if cells is None:
            self._parts.append(whole)
            return
        for begin, end, column, beside in cells:
            self._parts.append(Part(start + begin, start + end, begin, place, column, None, beside, False))

    def walk(self, value: JsonValue, schema: dict[str, Any] | None) -> None:
        waiting: list[tuple[Any, Place, str, bool, Any]] = [(value, (), "", False, schema)]
        count = 0
        while waiting:
            item, place, name, beside, described = waiting.pop()
            count += 1
            if count > MAX_VALUES or len(place) > MAX_DEPTH:
                self._is_complete = False
                if count > MAX_VALUES:
                    return
                continue
            if isinstance(item, str):
                if item:
                    self.add(item, place, name, _format_of(described), is_beside_person=beside, is_key=False)
            elif isinstance(item, dict):
                beside = any(map(describes_person, item))
                for key in item:
                    if not key.isidentifier() or len(key) > _MAX_NAME_CHARACTERS:
                        self.add(key, (*place, key), "", None, is_beside_person=False, is_key=True)
                about = _member(described, "properties") or {}
                waiting += [
                    (child, (*place, key), key, beside, about.get(key)) for key, child in reversed(item.items())
                ]
                count += len(item)
            elif isinstance(item, list):
                inner = _member(described, "items")
                waiting += [(child, (*place, at), name, beside, inner) for at, child in reversed(list(enumerate(item)))]
            elif isinstance(item, int | float) and not isinstance(item, bool):
                digits = str(item)
                if len(digits) >= _MIN_NUMBER_DIGITS:
                    self.add(digits, place, name, _format_of(described), is_beside_person=beside, is_key=False)


def _member(schema: Any, name: str) -> dict[str, Any] | None:
    found = schema.get(name) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else None


def _format_of(schema: Any) -> Kind | None:
    found = schema.get("format") if isinstance(schema, dict) else None
    return schema_evidence(found) if isinstance(found, str) else None


def _cells(text: str) -> Iterator[tuple[int, int, str, bool]] | None:
    """Start and end of each cell below the header, with the column's name and whether other columns are of a person;
    None if the text is no table."""
    end = text.find("\n", 0, _MAX_HEADER_CHARACTERS)
    if end < 1:
        return None
    header = text[:end].rstrip("\r")
    separator = max(_TABLE_SEPARATORS, key=header.count)
    columns = [name.strip().strip('"') for name in header.split(separator)]
    named = columns[1:-1] if separator == "|" and not columns[0] and not columns[-1] else columns
    if not 2 <= len(columns) <= _MAX_COLUMNS or not named or not all(map(_COLUMN.fullmatch, named)):
        return None
    rows = text[end + 1 : end + 1 + _MAX_HEADER_CHARACTERS].split("\n")[:_MIN_TABLE_ROWS]
    if not rows[0] or any(row and row.count(separator) < len(columns) - 1 for row in rows[:-1] or rows):
        return None
    return _rows(text, end + 1, separator, columns)


def _rows(text: str, at: int, separator: str, columns: list[str]) -> Iterator[tuple[int, int, str, bool]]:
    yield 0, at - 1, "", False
    beside = any(map(describes_person, columns))
    last = len(columns) - 1
    while at < len(text):
        column = 0
        line_end = _find(text, "\n", at, len(text))
        while at <= line_end:
            start = at
            if text.startswith('"', at):
                at = _quoted_end(text, at)
                line_end = _find(text, "\n", at, len(text)) if at > line_end else line_end
            at = _find(text, separator, at, line_end)
            if at > start:
                yield start, at, columns[min(column, last)], beside
            column += 1
            at += 1


def _find(text: str, what: str, start: int, end: int) -> int:
    """Where `what` is; `end` if it is not there."""
    at = text.find(what, start, end)
    return end if at < 0 else at


def _quoted_end(text: str, at: int) -> int:
    """The position after a cell in quotes."""
    end = at + 1
    while True:
        end = text.find('"', end)
        if end < 0:
            return len(text)
        if not text.startswith('"', end + 1):
            return end + 1
        end += 2
