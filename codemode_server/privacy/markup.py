"""Finds the names of fields in HTML and XML: headers and labels of tables, terms of lists, elements. Pure.

Only the first text of a cell is read, and an element of XML that has nothing but a text in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from codemode_server.privacy.evidence import may_tell_alone
from codemode_server.privacy.renamed_fields import RenamedFields

MARK = "</"
"""No text without it is markup."""
_CLOSING = re.compile(r"</([A-Za-z][\w.:-]{0,60})")
_FIELDS = re.compile(r"</(?:th|dt|td>\s{0,100}<td)\b", re.IGNORECASE)
"""A header, a term, or a row of several cells. Mails have many tables without them, for their layout."""
_CELL = re.compile(
    r"<(?P<tag>table|t[hdr]|d[ltd])(?:\s[^<>]{0,1000})?>(?:\s|<(?!/?(?:table|t[hdr]|d[ltd])\b)[^<>]{0,1000}>)*"
    r"(?P<text>[^<>]*)",
    re.IGNORECASE,
)
_COLSPAN = re.compile(r"\bcolspan\s{0,9}=\s{0,9}[\"']?([1-9][0-9]?)\b", re.IGNORECASE)
_MAX_COLSPAN = 30
_LEAF = re.compile(
    r"<(?P<name>[A-Za-z][\w.:-]{0,60})(?:\s[^<>]{0,1000})?>(?:<!\[CDATA\[)?(?P<text>[^<>]{1,300}?)(?:\]\]>)?</(?P=name)\s*>"
)
_HTML_LIST = (
    "a abbr article b button center cite code dd div dt em font h1 h2 h3 h4 h5 h6 i label li mark option p q s section"
    " small span strong sub sup td th time title u"
)
_HTML = frozenset(_HTML_LIST.split())
"""Elements of HTML that say nothing about their texts, although some are words."""
_MAX_LABEL_CHARACTERS = 64
Named = tuple[int, int, str, bool]
"""Start and end of a text, the name of its field, and whether other fields beside it are of a person."""


class _Cell(NamedTuple):
    start: int
    end: int
    is_label: bool
    """Whether the markup says that it is a header or a term."""


_EMPTY = _Cell(0, 0, False)
_CELLS = frozenset({"th", "td", "dt", "dd"})
_LABELS = frozenset({"th", "dt"})


def named_in(text: str, fields: RenamedFields) -> Iterator[Named] | None:
    """A text in parts, of which those that stand in a field have its name; None if it has no such fields."""
    names = {*_CLOSING.findall(text)}
    found: list[Named] = []
    if _FIELDS.search(text):
        found += _in_tables(text, fields)
    if any(fields.has_evidence(local) or may_tell_alone(local) for local in map(_local, names)):
        found += _in_elements(text, fields)
    return _with_rest(sorted(found), len(text)) if found else None


def _with_rest(named: list[Named], length: int) -> Iterator[Named]:
    at = 0
    for one in named:
        if one[0] >= at:
            if one[0] > at:
                yield at, one[0], "", False
            yield one
            at = one[1]
    if at < length:
        yield at, length, "", False


def _in_tables(text: str, fields: RenamedFields) -> Iterator[Named]:
    rows: list[list[_Cell]] = []
    has_wide = "colspan" in text or "COLSPAN" in text
    for found in _CELL.finditer(text):
        tag, shown = found.groups()
        tag = tag.casefold()
        if tag in _CELLS and (rows or tag == "dt"):
            if tag == "dt":
                rows.append([])
            if shown:
                start, end = found.start(2), found.end(2)
                start, end = start + len(shown) - len(shown.lstrip()), end - len(shown) + len(shown.rstrip())
                rows[-1].append(_Cell(start, max(start, end), tag in _LABELS))
            else:
                rows[-1].append(_EMPTY)
            if has_wide and (wide := _COLSPAN.search(text, found.start(), found.start(2))):
                other = rows[-1][-1] if tag in _LABELS else _EMPTY
                rows[-1] += [other] * (min(int(wide[1]), _MAX_COLSPAN) - 1)
        elif tag == "tr":
            rows.append([])
        elif rows:
            yield from _of_table(text, rows, fields)
            rows = []
    if rows:
        yield from _of_table(text, rows, fields)


def _of_table(text: str, rows: list[list[_Cell]], fields: RenamedFields) -> Iterator[Named]:
    pairs = [row for row in rows if len(row) == 2]
    labels = [name for row in pairs if fields.has_evidence(name := _label(text, row[0]))]
    if len(labels) > 1 or (labels and any(row[0].is_label and not row[1].is_label for row in pairs)):
        beside = any(map(fields.describes_person, labels))
        for label, cell in pairs:
            if cell.end > cell.start and fields.has_evidence(name := _label(text, label)):
                yield cell.start, cell.end, name, beside
        return
    names = [_label(text, cell) for cell in rows[0]]
    if any(map(fields.has_evidence, names)):
        beside = any(map(fields.describes_person, names))
        for row in rows[1:]:
            for name, cell in zip(names, row, strict=False):
                if cell.end > cell.start and fields.has_evidence(name):
                    yield cell.start, cell.end, name, beside


def _label(text: str, cell: _Cell) -> str:
    return text[cell.start : cell.end].rstrip(" :") if cell.end - cell.start <= _MAX_LABEL_CHARACTERS else ""


def _in_elements(text: str, fields: RenamedFields) -> Iterator[Named]:
    """The elements with a text; those with nothing but white space between them stand beside each other."""
    group: list[Named] = []
    end = 0
    for found in _LEAF.finditer(text):
        if group and text[end : found.start()].strip():
            yield from _of_group(group, fields)
            group = []
        group.append((*found.span("text"), _local(found["name"]), False))
        end = found.end()
    yield from _of_group(group, fields)


def _of_group(group: list[Named], fields: RenamedFields) -> Iterator[Named]:
    beside = any(fields.describes_person(one[2]) for one in group)
    for start, end, name, _ in group:
        if name:  # also one that says nothing, so that the name of another element is none for its text
            yield start, end, name, beside


def _local(name: str) -> str:
    """Without the prefix of a namespace; empty for an element of HTML."""
    return "" if name.casefold() in _HTML else name.rpartition(":")[2]
