"""Recognises persons in lines of vCard and LDIF, whose properties have names of one or two letters: `FN:Ann Lee`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from codemode_server.privacy.findings import Kind

_LINE = re.compile(
    r"(?<![^\n\x00])(?:[\w-]{1,40}\.)?(?P<name>BEGIN|FN|NICKNAME|N|BDAY|ADR|ORG|KIND|dn|cn|sn|givenName)"
    r"(?:;[^:\r\n\x00]{0,300})?:(?!:) ?(?P<value>[^\r\n\x00]{1,300})",
    re.IGNORECASE,
)
_MARKS = ("VCARD", "vcard", "dn: ")
"""No text without one of them is searched."""
_NAME = re.compile(r"[^\W\d_][\w '’.·-]{1,80}")
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d(?:T[\d:.]{2,15}(?:Z|[+-]\d\d:?\d\d)?)?")
_STREET = re.compile(r"(?=.*[^\W\d_]{2})(?=.*\d).{5,200}")
_GROUPS = frozenset({"org", "group", "location", "application", "device"})
_NAME_PARTS, _STREET_PART = 3, 2
_SURE = 0.9
Property = tuple[int, int, Kind, float]
"""Start, end, kind and confidence of a value."""


class _Line(NamedTuple):
    name: str
    value: str
    start: int


def properties_in(text: str) -> Iterator[Property]:
    """The names, dates of birth and streets of the persons in cards and entries of directories."""
    if not any(mark in text for mark in _MARKS):
        return
    lines: list[_Line] = []
    for found in _LINE.finditer(text):
        name = found["name"].casefold()
        if name in ("begin", "dn"):
            yield from _of_person(lines)
            lines = []
        lines.append(_Line(name, found["value"].rstrip(), found.start("value")))
    yield from _of_person(lines)


def _of_person(lines: list[_Line]) -> Iterator[Property]:
    """What one card or entry holds; nothing if it is one of an organization or a group."""
    first = lines[0] if lines else None
    if first is None or not (first.name == "dn" or (first.name == "begin" and first.value.casefold() == "vcard")):
        return
    values = {line.name: line.value for line in lines}
    if first.name == "dn":
        if values.keys() & {"sn", "givenname"}:
            yield from (it for line in lines if line.name in ("cn", "sn", "givenname") for it in _name(line))
        return
    if values.get("kind", "").casefold() in _GROUPS or ("org" in values and values["org"] == values.get("fn")):
        return
    for line in lines:
        if line.name in ("fn", "nickname"):
            yield from _name(line)
        elif line.name == "n":
            for part in _parts(line)[:_NAME_PARTS]:
                yield from _name(part)
        elif line.name == "bday" and _DATE.fullmatch(line.value):
            yield line.start, line.start + len(line.value), Kind.BIRTH_DATE, _SURE
        elif line.name == "adr":
            for part in _parts(line)[_STREET_PART : _STREET_PART + 1]:
                if _STREET.fullmatch(part.value):
                    yield part.start, part.start + len(part.value), Kind.ADDRESS, _SURE


def _name(line: _Line) -> Iterator[Property]:
    if _NAME.fullmatch(line.value):
        yield line.start, line.start + len(line.value), Kind.NAME, _SURE


def _parts(line: _Line) -> list[_Line]:
    """The values of a structured property."""
    made: list[_Line] = []
    start = line.start
    for part in line.value.split(";"):
        made.append(_Line(line.name, part, start))
        start += len(part) + 1
    return made
