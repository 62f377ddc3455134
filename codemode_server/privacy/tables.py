"""Finds the names of the fields where a value does not stand below its own name: columns of tables, and pairs.

A table is a text with separators (CSV, Markdown), a list of rows with a header, or rows beside a list of their columns.
A pair is an object with the name of a field and its value: `{"name": "Email", "value": "ann@example.org"}`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from codemode_server.privacy.renamed_fields import RenamedFields

_MAX_COLUMNS = 200
_MAX_HEADER_CHARACTERS = 4_000
_SEPARATORS = ",;\t|│"
_BARS = "|│"
_RULE = re.compile(r"[|+=: \t─═┼╪├┤╞╡╠╣╬│║-]{3,}")
"""The line between a header and its rows, as databases and Markdown draw it."""
_NO_SEPARATOR = "\x1f"
_MIN_ROWS = 2
_MAX_LINES_BEFORE = 5
"""Lines or rows that may stand above a header: a title, an empty line."""
_COLUMN = re.compile(r"[^\W\d_][\w .()/#%:*?'’-]{0,60}|")
_MAX_LABEL_CHARACTERS = 64
_BYTE_ORDER_MARK = "\ufeff"
# fmt: off
_LABEL_KEYS = (
    "name", "key", "field", "label", "property", "title", "question", "header", "fieldName", "field_name", "attribute",
    "column", "text", "type", "system", "id",
)
_VALUE_KEYS_LIST = (
    "value values answer answers val content data text raw formatted rich_text plain_text v displayValue display_value"
    " formattedValue stringValue string_value userEnteredValue effectiveValue rawValue raw_value"
)
_COLUMNS_KEYS = ("columns", "headers", "header", "fields", "column_names", "columnNames", "columnHeaders", "schema")
# fmt: on
VALUE_KEYS = frozenset(_VALUE_KEYS_LIST.split())
"""Keys that say nothing: what is below them belongs to the name above."""
NEUTRAL_KEYS = VALUE_KEYS | {"title"}
COLUMNS_KEYS = frozenset(_COLUMNS_KEYS)


def label_of(item: Any, fields: RenamedFields) -> str:
    """The name of the field in a pair; empty if the object is none."""
    if not isinstance(item, dict) or VALUE_KEYS.isdisjoint(item):
        return ""
    labels = [
        label
        for key in _LABEL_KEYS
        if isinstance(label := item.get(key), str) and 0 < len(label) <= _MAX_LABEL_CHARACTERS and len(item) > 1
    ]
    return next(filter(fields.has_evidence, labels), "")


def columns_of(item: dict[str, Any], fields: RenamedFields) -> tuple[str, tuple[str, ...]]:
    """The key of the columns of rows that stand beside them in an object, and their names; empty if it has none."""
    for key in _COLUMNS_KEYS:
        if key in item:
            names = item[key]
            if key == "schema" and isinstance(names, dict):
                names = names.get("fields")
            if isinstance(names, list) and 0 < len(names) <= _MAX_COLUMNS:
                found = tuple(_name_of(one) for one in names)
                if any(map(fields.has_evidence, found)):
                    return key, found
    return "", ()


def is_cell(item: Any) -> bool:
    """Whether this is a cell of a row, and neither a row nor several."""
    if isinstance(item, dict):
        return any(not isinstance(item[key], dict | list) for key in VALUE_KEYS.intersection(item))
    return not isinstance(item, list)


def _name_of(column: Any) -> str:
    if isinstance(column, dict):
        column = next((column[key] for key in ("name", "label", "title") if isinstance(column.get(key), str)), "")
    return column if isinstance(column, str) else ""


def header_of(rows: Sequence[Any], fields: RenamedFields) -> tuple[int, tuple[str, ...]] | None:
    """Where the header of a list of rows is, and its names; None if there is none."""
    for at, row in enumerate(rows[: _MAX_LINES_BEFORE + 1]):
        if not isinstance(row, list) or not 0 < len(row) <= _MAX_COLUMNS:
            continue
        names = tuple("" if name is None else name for name in row)
        if all(isinstance(name, str) and _COLUMN.fullmatch(name.strip()) for name in names) and any(
            map(fields.has_evidence, names)
        ):
            return (at, names) if at + 1 < len(rows) and isinstance(rows[at + 1], list) else None
    return None


def labels_of(rows: Sequence[Any], fields: RenamedFields) -> list[str]:
    """The names of fields in rows that are pairs: `[["Name", "Ann Lee"], ["Phone", "030 901820"]]`; none if the rows
    are no pairs."""
    pairs = (row for row in rows if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str))
    labels = [row[0] for row in pairs if fields.has_evidence(row[0])]
    return labels if len(labels) > 1 else []


def first_texts(rows: Sequence[Any]) -> Iterator[str]:
    """The texts of the rows among which a header may be, and those of a first column."""
    for at, row in enumerate(rows):
        if isinstance(row, list):
            cells = row[:_MAX_COLUMNS] if at <= _MAX_LINES_BEFORE else row[:1]
            yield from (cell for cell in cells if isinstance(cell, str) and len(cell) <= _MAX_LABEL_CHARACTERS)


def cells_in(text: str, fields: RenamedFields) -> Iterator[tuple[int, int, str, bool]] | None:
    """Start and end of each cell below the header, with the column's name and whether other columns are of a person;
    None if the text is no table."""
    start = 1 if text.startswith(_BYTE_ORDER_MARK) else 0
    for line in range(_MAX_LINES_BEFORE + 1):
        end = text.find("\n", start, start + _MAX_HEADER_CHARACTERS)
        if end < 0:
            return None
        if line == 0 and len(fields.columns) == 1 and fields.of(name := text[start:end].strip('" \r')) is not None:
            return _rows(text, end + 1, _NO_SEPARATOR, [name], fields)
        if found := _header_in(text, start, end):
            separator, columns = found
            if line == 0 or any(map(fields.has_evidence, columns)):
                return _rows(text, end + 1, separator, columns, fields)
        start = end + 1
    return None


def _header_in(text: str, start: int, end: int) -> tuple[str, list[str]] | None:
    header = text[start:end].rstrip("\r")
    separator = max(_SEPARATORS, key=header.count)
    if separator not in header:
        return None
    columns = [name.strip().strip('"') for name in header.split(separator)]
    named = columns[1:-1] if separator in _BARS and not columns[0] and not columns[-1] else columns
    if len(columns) > _MAX_COLUMNS or not any(named) or not all(map(_COLUMN.fullmatch, named)):
        return None
    rows = text[end + 1 : end + 1 + _MAX_HEADER_CHARACTERS].split("\n")[: _MIN_ROWS + 1]
    rows = rows[1:] if separator in _BARS and _RULE.fullmatch(rows[0].strip()) else rows[:_MIN_ROWS]
    if not rows:
        return None
    if not rows[0] or any(row and row.count(separator) < len(columns) - 1 for row in rows[:-1] or rows):
        return None
    return separator, columns


def _rows(
    text: str, at: int, separator: str, columns: list[str], fields: RenamedFields
) -> Iterator[tuple[int, int, str, bool]]:
    yield 0, at - 1, "", False
    beside = any(map(fields.describes_person, columns))
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
