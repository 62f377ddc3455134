"""Turns a JSON value, or a text that is a table, into one text with marked parts, which is searched in a single pass.

Searching 50,000 short strings one by one costs ten times as much as searching them together. No pattern crosses the
NUL between two parts. A cell of a table in CSV or Markdown is a part with the name of its column, and stays where it
is; of a text that is JSON or base64 the value that it holds is searched.
"""

from __future__ import annotations

import datetime
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue
from codemode_server.features.privacy.fields import describes_person, field_evidence, has_evidence, is_document_field
from codemode_server.features.privacy.findings import MAX_DEPTH, Kind, Place
from codemode_server.features.privacy.replacing import Shifts, Wrapping, unwrapped, without_escapes
from codemode_server.support.json_values import MAX_VALUES

_SEPARATOR = "\x00"
_MIN_NUMBER = 100_000
_MAX_NAME_CHARACTERS = 16
"""A longer key may be a credential, although it is an identifier."""
_KEY_DIGITS = re.compile("(?:[0-9][^0-9]*){4}")
"""A key with so many digits may be the number of an account or an identity card."""
_MAX_COLUMNS = 200
_MAX_HEADER_CHARACTERS = 4_000
_RULE = re.compile(r"[|+=: \t─═┼╪├┤╞╡╠╣╬│║-]{3,}")
"""The line between a header and its rows, as databases and Markdown draw it."""
_MAX_LINES_BEFORE = 5
"""Lines or rows that may stand above a header: a title, an empty line."""
_COLUMN = re.compile(r"[^\W\d_][\w .()/#%:*?'’-]{0,60}|")
_LABEL_KEYS_LIST = "name key field label property title question header fieldName field_name type"
_LABEL_KEYS = tuple(_LABEL_KEYS_LIST.split())
_VALUE_KEYS_LIST = (
    "value values answer answers val content data text raw formatted rich_text plain_text v displayValue"
    " display_value formattedValue stringValue string_value userEnteredValue effectiveValue rawValue raw_value"
)
_VALUE_KEYS = frozenset(_VALUE_KEYS_LIST.split())
"""Keys that say nothing: the value below them belongs to the name above."""
_DATE_KEYS = frozenset({"date", "start", "iso", "iso_date", "isoDate"})
"""Keys that say nothing below a field of birth dates."""
_COLUMNS_KEYS = ("columns", "headers", "header", "fields", "column_names", "columnNames", "columnHeaders", "schema")
Path = tuple[Any, Any] | None
"""The path of the value around it, and the step from there; None for the whole value."""


class Part(NamedTuple):
    """One string, key, number or cell of the searched text."""

    start: int
    end: int
    offset: int
    """Where it begins in its own string: above 0 for a cell of a table."""
    path: Path
    name: str = ""
    """The name of its field or column; empty if it has none."""
    is_beside_person: bool = False
    """True if another field beside it is one of a person."""
    is_key: bool = False
    is_number: bool = False
    shifts: Shifts = ()

    @property
    def column(self) -> tuple[str, int]:
        """The same for the values of one field in the rows of a list, as long as the parts live."""
        row = self.path[0] if self.path and not self.offset else self.path
        return self.name, id(row[0]) if row and not self.offset else id(row)

    @property
    def place(self) -> Place:
        steps: list[str | int] = []
        path = self.path
        while path is not None:
            path, step = path
            steps.append(step)
        return tuple(reversed(steps))

    def span_in_string(self, start: int, end: int) -> tuple[int, int]:
        """A span of the searched text as one of its own string, whole escapes included."""
        if not self.shifts:
            return start - self.start + self.offset, end - self.start + self.offset
        first = bisect_right(self.shifts, start - self.start, key=lambda it: it[0]) - 1
        last = bisect_right(self.shifts, end - self.start - 1, key=lambda it: it[0]) - 1
        begin = self._shifted(first, start)
        if last >= 0 and last % 2 == 0:  # it ends within an escape
            return begin, self.shifts[last + 1][1]
        return begin, self._shifted(last, end)

    def _shifted(self, at: int, place: int) -> int:
        if at < 0:
            return place - self.start
        plain, written = self.shifts[at]
        return written if at % 2 == 0 else written + place - self.start - plain


class SearchedText(NamedTuple):
    """The text and its parts, in order."""

    text: str
    starts: list[int]
    parts: list[Part]
    is_complete: bool

    def part_at(self, position: int) -> Part:
        return self.parts[max(0, bisect_right(self.starts, position) - 1)]


def searched_value(value: JsonValue, name: str = "") -> SearchedText:
    """All strings, keys and long numbers of a JSON value; `name` is that of the field that it comes from."""
    builder = _Builder()
    builder.visit(value, None, _Around(name))
    return SearchedText(
        _SEPARATOR.join(builder.pieces), [it.start for it in builder.parts], builder.parts, builder.is_complete
    )


class _Around(NamedTuple):
    """The surroundings of a value."""

    name: str = ""
    is_beside_person: bool = False
    columns: tuple[str, ...] = ()
    """Those of a table in which the value is, as long as it is in no row of it."""
    depth: int = 0


class _Builder:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.parts: list[Part] = []
        self.is_complete = True
        self._length = 0
        self._count = 0

    def visit(self, item: Any, path: Path, around: _Around) -> None:
        if isinstance(item, str):
            if item:
                self._text(item, path, around)
        elif isinstance(item, dict | list):
            self._count += len(item)
            if self._count > MAX_VALUES or around.depth >= MAX_DEPTH:
                self.is_complete = False
            elif isinstance(item, dict):
                self._object(item, path, around)
            else:
                self._list(item, path, around)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            number = int(item) if isinstance(item, float) and item.is_integer() else item
            if abs(number) >= _MIN_NUMBER or (isinstance(number, float) and abs(number) >= 1):
                self._add(str(number), path, around, is_number=True)

    def _object(self, item: dict[str, Any], path: Path, around: _Around) -> None:
        is_birth = bool(around.name) and field_evidence(around.name) is Kind.BIRTH_DATE
        if is_birth and (date := _date_in_parts(item)):
            self._add(date, path, around)
            return
        is_person = any(map(describes_person, item))
        if is_person and isinstance(full := item.get("full_name"), str) and "/" in full:  # of a repository
            is_person = any(map(describes_person, item.keys() - {"full_name"}))
        label, columns_key, columns = _label_of(item), "", around.columns
        for key in _COLUMNS_KEYS:
            if key in item and (names := _column_names(item[key])):
                columns_key, columns = key, names
                break
        is_indexed = all(map(str.isdecimal, item))
        depth = around.depth + 1
        for key, child in item.items():
            place, name, beside = (path, key), key, is_person
            if _is_searched(key):
                self._add(key, place, _Around(), is_key=True)
            if is_indexed:
                name, beside = around.name, around.is_beside_person
            elif not is_person and (key in _VALUE_KEYS or (key == "title" and isinstance(child, list))):
                name = (label if child != label else "") or around.name or key
                beside = around.is_beside_person
            elif label and child == label:
                name = ""
            elif (is_birth and key in _DATE_KEYS) or (key == "number" and is_document_field(around.name)):
                name = around.name
            is_header = key == columns_key != ""
            self.visit(child, place, _Around("" if is_header else name, beside, () if is_header else columns, depth))

    def _list(self, rows: list[Any], path: Path, around: _Around) -> None:
        depth, begin, columns = around.depth + 1, -1, around.columns
        inner = around._replace(depth=depth)
        if any(isinstance(row, list) for row in rows[:2]):
            if not columns and (found := _header_of(rows)):
                begin, columns = found
        elif columns and len(columns) == len(rows) and all(map(_is_cell, rows)):
            self._row(rows, path, columns, depth)
            return
        elif rows and isinstance(rows[0], dict) and not around.is_beside_person and not _VALUE_KEYS.isdisjoint(rows[0]):
            inner = inner._replace(is_beside_person=any(describes_person(_label_of(row)) for row in rows))
        for at, row in enumerate(rows):
            if isinstance(row, list) and columns and at > begin:
                self._count += len(row)
                self._row(row, (path, at), columns, depth)
            else:
                self.visit(row, (path, at), inner)

    def _row(self, row: list[Any], path: Path, columns: tuple[str, ...], depth: int) -> None:
        beside = any(map(describes_person, columns))
        for at, cell in enumerate(row):
            self.visit(cell, (path, at), _Around(columns[at] if at < len(columns) else "", beside, depth=depth))

    def _text(self, text: str, path: Path, around: _Around) -> None:
        if (found := unwrapped(text)) is not None:
            wrapping, held = found
            if wrapping is Wrapping.JSON:
                self.visit(held, (path, wrapping), around._replace(columns=(), depth=around.depth + 1))
                return
            if held is None:
                return
            self._text(held, (path, wrapping), _Around(depth=around.depth + 1))
        if "\n" in text and (table := _table_in(text)) is not None:
            start = self._length
            for begin, end, column, beside in _cells_in(text, *table):
                self.parts.append(Part(start + begin, start + end, begin, path, column, beside))
            self.pieces.append(text)
            self._length += len(text) + 1
        else:
            self._add(text, path, around)

    def _add(self, text: str, path: Path, around: _Around, *, is_key: bool = False, is_number: bool = False) -> None:
        text, shifts = without_escapes(text) if "%" in text or "&" in text else (text, ())
        start = self._length
        self.parts.append(
            Part(start, start + len(text), 0, path, around.name, around.is_beside_person, is_key, is_number, shifts)
        )
        self.pieces.append(text)
        self._length += len(text) + 1


def _date_in_parts(item: dict[str, Any]) -> str:
    """The date that an object with a year, a month and a day is, in the form of ISO 8601; empty if it is none."""
    try:
        return datetime.date(*(int(item[part]) for part in ("year", "month", "day"))).isoformat()
    except (KeyError, TypeError, ValueError, OverflowError):
        return ""


def _is_cell(item: Any) -> bool:
    return not isinstance(item, list) and (not isinstance(item, dict) or not _VALUE_KEYS.isdisjoint(item))


def _is_searched(key: str) -> bool:
    return not key.isidentifier() or len(key) > _MAX_NAME_CHARACTERS or _KEY_DIGITS.search(key) is not None


def _label_of(item: Any) -> str:
    """The name of the field in a pair (`{"name": "Email", "value": …}`); empty if the object is none."""
    if not isinstance(item, dict) or _VALUE_KEYS.isdisjoint(item):
        return ""
    labels = (label for key in _LABEL_KEYS if isinstance(label := item.get(key), str) and 0 < len(label) <= 64)
    return next(filter(has_evidence, labels), "")


def _column_names(names: Any) -> tuple[str, ...]:
    """The names of columns beside their rows; empty if these are none."""
    names = names.get("fields") if isinstance(names, dict) else names
    if not isinstance(names, list) or not 0 < len(names) <= _MAX_COLUMNS:
        return ()
    found = tuple(
        str(next((it[key] for key in ("name", "label", "title") if key in it), "")) if isinstance(it, dict) else str(it)
        for it in names
    )
    return found if all(len(name) <= 64 for name in found) else ()


def _header_of(rows: Sequence[Any]) -> tuple[int, tuple[str, ...]] | None:
    """Where the header of a list of rows is, and its names; None if there is none."""
    for at, row in enumerate(rows[: _MAX_LINES_BEFORE + 1]):
        if isinstance(row, list) and 0 < len(row) <= _MAX_COLUMNS and at + 1 < len(rows):
            names = tuple("" if name is None else name for name in row)
            are_names = all(isinstance(name, str) and _COLUMN.fullmatch(name.strip()) for name in names)
            if are_names and any(map(has_evidence, names)):
                return at, names
    return None


def _table_in(text: str) -> tuple[int, str, list[str]] | None:
    """Where the rows of a table begin, its separator and the names of its columns; None if the text is no table."""
    start = 1 if text.startswith("\ufeff") else 0
    for line in range(_MAX_LINES_BEFORE + 1):
        end = text.find("\n", start, start + _MAX_HEADER_CHARACTERS)
        if end < 0:
            return None
        header = text[start:end].rstrip("\r")
        separator = max(",;\t|│", key=header.count)
        columns = [name.strip().strip('"') for name in header.split(separator)]
        named = columns[1:-1] if separator in "|│" and not columns[0] and not columns[-1] else columns
        rows = text[end + 1 : end + 1 + _MAX_HEADER_CHARACTERS].split("\n")[:3]
        rows = rows[1:] if separator in "|│" and _RULE.fullmatch(rows[0].strip()) else rows[:2]
        is_regular = bool(rows and rows[0]) and not any(
            row and row.count(separator) < len(columns) - 1 for row in rows[:1]
        )
        is_header = 1 < len(columns) <= _MAX_COLUMNS and any(named) and all(map(_COLUMN.fullmatch, named))
        if is_regular and is_header and (line == 0 or any(map(has_evidence, columns))):
            return end + 1, separator, columns
        start = end + 1
    return None


def _cells_in(text: str, at: int, separator: str, columns: list[str]) -> Iterator[tuple[int, int, str, bool]]:
    """Start and end of each cell, with the name of its column and whether other columns are those of a person."""
    yield 0, at - 1, "", False
    beside = any(map(describes_person, columns))
    while at < len(text):
        column, line_end = 0, _find(text, "\n", at, len(text))
        while at <= line_end:
            start = at
            if text.startswith('"', at):
                at = _quoted_end(text, at)
                line_end = _find(text, "\n", at, len(text)) if at > line_end else line_end
            at = _find(text, separator, at, line_end)
            if at > start:
                yield start, at, columns[min(column, len(columns) - 1)], beside
            column += 1
            at += 1


def _find(text: str, sought: str, start: int, end: int) -> int:
    at = text.find(sought, start, end)
    return end if at < 0 else at


def _quoted_end(text: str, at: int) -> int:
    end = text.find('"', at + 1)
    while end >= 0 and text.startswith('"', end + 1):
        end = text.find('"', end + 2)
    return len(text) if end < 0 else end + 1
