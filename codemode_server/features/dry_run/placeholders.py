"""Placeholders: what a dry run gives a program in place of the results of calls that are not sent.

A placeholder is plain data of the result's type, declared or observed, and most of it names the call that it came from,
also as a part of a longer text: `<number of github.create_issue #1>`, unusual numbers, and addresses and ids that no
server gives. So most arguments that derive from one are recognised. Booleans, dates, null, the values of an enum and
what is computed from a number can't be: they are plain guesses. A program that hides that it uses a placeholder changes
only what the plan says; the person is asked where a call differs from it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_plus

from codemode_server.calls.targets import CallTarget, ToolTarget, title_of
from codemode_server.catalog.json_schema import (
    SchemaReader,
    branches_of,
    enum_of,
    kinds_of,
    properties_of,
    tuple_of,
)
from codemode_server.catalog.returns import result_schema
from codemode_server.domain.calls import ToolCall
from codemode_server.domain.ids import JsonValue
from codemode_server.sandbox.contract import Reply
from codemode_server.support.json_values import values_in

_BASE = 4_000_000_000_000_000
"""Numbers of placeholders begin here: JSON holds them exactly, and hardly any real number is in this range."""
_PER_CALL = 1_000
"""Different numbers of one call, and how far a program may add to one."""
_MAX_CALLS = 999_999
_DAY = "2000-01-01"
_MAX_DEPTH = 8
_MAX_VALUES = 300
_MAX_NAME_CHARACTERS = 60
_TEXT = re.compile(r" of [\w.-]{1,200} #(\d{1,6})>", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\d.])4000000\d{9}(?:\.\d+)?(?!\d)")
_ADDRESS = re.compile(r"\bcall-(\d{1,6})\.placeholder\.invalid\b", re.IGNORECASE)
_UUID = re.compile(r"\b40000000-0000-4000-8000-(\d{6})\d{6}\b")
_NOT_IN_NAMES = re.compile(r"[^\w.\[\]-]")


def placeholder_of(schema: object, root: object, seq: int, title: str) -> tuple[JsonValue, list[str]]:
    """A value of a schema for call `seq` to `title`, such as `github.create_issue`, and the texts in it that stand for
    something of an unknown type. A schema is untrusted, so depth and size are bounded; what is beyond is unknown."""
    maker = _Maker(SchemaReader(root), min(seq, _MAX_CALLS), title)
    return maker.value(schema, "result", 0), maker.unknown


def calls_in(value: JsonValue) -> frozenset[int]:
    """The numbers of the calls from whose placeholders something in a value derives, as far as that shows."""
    found: set[int] = set()
    for one in values_in(value, with_keys=True):
        if isinstance(one, str):
            found |= _calls_in_text(one)
        elif isinstance(one, int | float) and not isinstance(one, bool):
            found |= _calls_of_number(one)
    return frozenset(found)


def without_numbers(value: JsonValue) -> JsonValue:
    """A value of a dry run as people and models read it: numbers of placeholders are replaced by their call.
    May be called in a thread."""
    if isinstance(value, Mapping):
        return {text_without_numbers(key): without_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_numbers(inner) for inner in value]
    if isinstance(value, str):
        return text_without_numbers(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    calls = _calls_of_number(value) if is_number else ()
    return f"<number from call {min(calls)}>" if calls else value


def text_without_numbers(text: str) -> str:
    """The same for a text, such as what a program printed."""
    return _NUMBER.sub(lambda found: str(without_numbers(float(found[0]))), text)


@dataclass(slots=True)
class _Maker:
    reader: SchemaReader
    seq: int
    title: str
    unknown: list[str] = field(default_factory=list)
    _values: int = 0
    _numbers: int = 0

    def value(self, schema: object, name: str, depth: int) -> JsonValue:
        self._values += 1
        flat = self.reader.flat(schema)
        kinds = [kind for kind in kinds_of(flat) if kind != "null"]
        if depth > _MAX_DEPTH or self._values > _MAX_VALUES:
            return self._unknown(name)
        if allowed := enum_of(flat):
            return next((it for it in allowed if it is not None), None)
        if branches := branches_of(flat):
            rest = [it for it in branches if kinds_of(self.reader.flat(it)) != ["null"]]
            return self.value(rest[0], name, depth + 1) if rest else None
        match kinds[0] if kinds else None:
            case "object" if properties := properties_of(flat):
                return {key: self.value(inner, self._inner(name, key), depth + 1) for key, inner in properties.items()}
            case "object" if isinstance(flat.get("additionalProperties"), dict) and flat["additionalProperties"]:
                return {self._text("key"): self.value(flat["additionalProperties"], name, depth + 1)}
            case "array":
                items = tuple_of(flat) or [flat.get("items", {})]
                return [self.value(inner, f"{name}[{at}]", depth + 1) for at, inner in enumerate(items)]
            case "string":
                return self._of_format(flat.get("format"), name)
            case "integer":
                return self.number()
            case "number":
                return self.number() + 0.5
            case "boolean":
                return True
            case None if kinds_of(flat):
                return None
            case _:
                return self._unknown(name)

    def _inner(self, name: str, key: str) -> str:
        return key if name == "result" else f"{name}.{key}"

    def _text(self, name: str) -> str:
        shown = _NOT_IN_NAMES.sub("_", name)
        if len(shown) > _MAX_NAME_CHARACTERS:
            shown = f"…{shown[-_MAX_NAME_CHARACTERS:]}"
        return f"<{shown} of {self.title} #{self.seq}>"

    def _unknown(self, name: str) -> str:
        self.unknown.append(text := self._text(name))
        return text

    def number(self) -> int:
        number = _BASE + self.seq * _PER_CALL + min(self._numbers, _PER_CALL // 2)
        self._numbers += 1
        return number

    def _of_format(self, name_of_format: object, name: str) -> str:
        match name_of_format:
            case "date-time":
                return f"{_DAY}T00:00:00Z"
            case "date":
                return _DAY
            case "uuid":
                self._numbers += 1
                return f"40000000-0000-4000-8000-{self.seq:06d}{self._numbers:06d}"
            case "uri" | "url":
                return f"https://call-{self.seq}.placeholder.invalid/{_NOT_IN_NAMES.sub('_', name)}"
            case "email":
                return f"somebody@call-{self.seq}.placeholder.invalid"
            case _:
                return self._text(name)


def _calls_in_text(text: str) -> set[int]:
    found: set[int] = set()
    for spelling in dict.fromkeys((text, unquote_plus(text) if "%" in text else text, html.unescape(text))):
        for pattern in (_TEXT, _ADDRESS, _UUID):
            found.update(int(it[1]) for it in pattern.finditer(spelling))
        for number in _NUMBER.finditer(spelling):
            found |= _calls_of_number(float(number[0]))
    return found


def _calls_of_number(number: float) -> set[int]:
    seq = (int(number) - _BASE) // _PER_CALL if _BASE <= abs(number) < 2 * _BASE else 0
    return {seq} if 1 <= seq <= _MAX_CALLS else set()


UNSTATED_EFFECT = "a dry run sends no call that may change something, and its server does not say that it only reads"
DESTROYING = "a dry run sends no call that may change something, and this one may destroy what it changes"
"""The reasons of decisions, by which the plan knows such calls in the journal."""


def placeholder_reply(call: ToolCall, target: CallTarget) -> Reply:
    """Reply for the program in place of the result."""
    title = title_of(target)
    schema = (
        result_schema(target.tool.definition, target.tool.observed) if isinstance(target, ToolTarget) else ({}, None)
    )
    value, unknown = placeholder_of(*schema, call.seq, title)
    if isinstance(target, ToolTarget) and target.is_raw:
        content = [{"type": "text", "text": f"<text of {title} #{call.seq}>"}]
        return Reply({"content": content, "structuredContent": value, "isError": False})
    return Reply([{"type": "placeholder", "value": value, "unknown": unknown}], "blocks") if unknown else Reply(value)
