"""Converts a text of an upstream to the value that it plainly is, else returns the text. Pure.

Read as JSON if it is an object or array, also in a Markdown fence that is all of the text, and as a list if each line
is a JSON object; as Python if it is a list, tuple or dict of plain values as `repr` writes it (database servers answer
so), with dates and times in it as ISO text, and decimals as numbers where a float holds them, else as text. Everything
else stays the text it is, also `42`, `true` and `null`, or the type of a result would change with its value: an id is
an id. Only where the tool declares numbers or booleans and no text, such a text is read as one. `[ ]` is a checkbox and
`(1)` is no tuple. JSON with anything before or after it stays a text, or that would be lost; so does what would take
too much memory or time to read.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Set
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from operator import is_
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.tools import ResultForm
from codemode_server.support.json_values import MAX_VALUES, holds_too_many_values, is_nested_deeper
from codemode_server.upstreams.messages import MAX_VALUE_DEPTH, without_surrogates

_REPR_CHARACTERS = 2 * 2**20
"""Longest text that is read as Python: about a second's work."""
_LONG_CHARACTERS = 2**20
"""A longer text is stripped only if it begins like a value: with one emoji a copy takes four bytes a character."""
_MAX_LINES = 100_000
_REPR_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<word>None|True|False)\b"""
    r"""|(?P<object>(?:datetime\.)?(?:date|datetime|time|timedelta)\([^()']{0,200}\)"""
    r"""|(?:Decimal|UUID)\('[^'()]{1,200}'\))"""
    r"""|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<trailing_comma>,(?=\s*[\])}]))|(?P<mark>[\[\](){}:,]|\s+)"""
)
_AS_JSON = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_FENCE = re.compile(r"```(?:json|JSON|jsonl|ndjson)?[ \t]*\r?\n")
_VALUE_BEGINS = re.compile(r"\s*+[{\[(`]")
_CHECKBOX = re.compile(r"\[[ \t]+\]")
_MAX_SCALAR_CHARACTERS = 400
_NO_VALUE = object()


def parse_text(text: str, scalars: Set[str] = frozenset()) -> JsonValue:
    """The value that `text` plainly is, by the rules in the module's docstring, else `text` itself. `scalars`: the JSON
    types that the tool declares in place of a text."""
    value = _parsed(text)
    return parse_scalar(text, scalars) if value is _NO_VALUE else value


def parse_texts(texts: list[str], scalars: Set[str] = frozenset()) -> JsonValue:
    """The value of several texts: a list if each one is a value (SDKs send a list as a block for each item), else one
    text of all, by newlines."""
    if len(texts) == 1:
        return parse_text(texts[0], scalars)
    values = [] if are_too_much(texts) else [parse_text(text, scalars) for text in texts]
    return "\n".join(texts) if not values or any(map(is_, values, texts)) else values


def as_list(value: JsonValue, texts: list[str], form: ResultForm) -> JsonValue:
    """A tool's value as the list that the tool gives, if it gives one, where `value` was read from `texts`, if any; a
    message stays a text, and a null where one is declared."""
    if not form.is_list or (value is None and form.may_be_null and not texts):
        return value
    if form.holds_texts and (len(texts) > 1 or (texts and not isinstance(value, list))):
        return [*texts]
    if isinstance(value, list):
        return value
    if value == {}:
        return []
    if form.holds_texts and isinstance(value, str):
        return [value]
    if value is None or (isinstance(value, str) and (value.strip() in ("", "null") or _CHECKBOX.fullmatch(value))):
        return []
    return value if isinstance(value, str) else [value]


def parse_scalar(text: str, scalars: Set[str]) -> JsonValue:
    """The number, boolean or null that a text is as JSON if it is of these types, else the text."""
    if not scalars or len(text) > _MAX_SCALAR_CHARACTERS or text.strip()[:1] in ('"', "N", "I"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    kinds = {bool: {"boolean"}, int: {"integer", "number"}, float: {"number"}, type(None): {"null"}}
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return value if is_finite and scalars & kinds.get(type(value), set()) else text


def are_too_much(texts: list[str]) -> bool:
    """True if several texts may hold more values altogether than are read; marks within strings count as well."""
    return len(texts) > 1 and sum(text.count(mark) for text in texts for mark in ",:[{(") > MAX_VALUES


def parse_document(text: str) -> JsonValue:
    """Like `parse_text`, but only JSON objects and arrays: for a text that is declared to be JSON."""
    value = _NO_VALUE if len(text) > _LONG_CHARACTERS and not _VALUE_BEGINS.match(text) else _parsed_json(text.strip())
    return text if value is _NO_VALUE else value


def _parsed(text: str) -> Any:
    if len(text) > _LONG_CHARACTERS and not _VALUE_BEGINS.match(text):
        return _NO_VALUE
    stripped = text.strip()
    if stripped[:1] in ("{", "[", "(") and not _CHECKBOX.fullmatch(stripped):
        value = _parsed_json(stripped)
        return _parsed_repr(stripped) if value is _NO_VALUE else value
    if fence := _FENCE.match(stripped):
        inner, closing, after = stripped[fence.end() :].partition("\n```")
        return _parsed_json(inner.strip()) if closing and not after.strip() else _NO_VALUE
    return _NO_VALUE


def _parsed_json(text: str) -> Any:
    if text[:1] not in ("{", "[") or _is_too_much(text):
        return _NO_VALUE
    try:
        value = json.loads(text)
    except RecursionError:
        return _NO_VALUE
    except ValueError:
        return _parsed_lines(text)
    if "\\ud" not in text and "\\uD" not in text:
        return value
    return _NO_VALUE if is_nested_deeper(value, MAX_VALUE_DEPTH) else without_surrogates(value)


def _is_too_much(text: str) -> bool:
    return holds_too_many_values(text.encode("utf-8", "replace"))


def _parsed_lines(text: str) -> Any:
    if not 0 < text.count("\n") < _MAX_LINES:
        return _NO_VALUE
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2 or not all(line.lstrip().startswith("{") and line.rstrip().endswith("}") for line in lines):
        return _NO_VALUE
    values = [_parsed_json(line.strip()) for line in lines]
    return values if all(isinstance(value, dict) for value in values) else _NO_VALUE


def _parsed_repr(text: str) -> Any:
    if text[-1:] not in (")", "]", "}") or len(text) > _REPR_CHARACTERS or _is_too_much(text):
        return _NO_VALUE
    try:
        return without_surrogates(json.loads(_repr_as_json(text)))
    except (ValueError, SyntaxError, RecursionError):  # sets, bytes and other keys than texts
        return _NO_VALUE


def _repr_as_json(text: str) -> str:
    """Rewrite what `repr` makes of lists, tuples and dicts of plain values as JSON: linear, where `ast` is not. Raises
    `ValueError`: there is something else in it."""
    written: list[str] = []
    commas: list[bool] = []
    """For each open bracket, whether there was a comma in it: `(1)` is no tuple."""
    place = 0
    # Not finditer: it goes on past what does not match, and takes quadratic time over quotes that are never closed.
    while token := _REPR_TOKEN.match(text, place):
        place = token.end()
        kind, found = token.lastgroup, token[0]
        if kind == "string":
            written.append(json.dumps(ast.literal_eval(found) if "\\" in found else found[1:-1]))
        elif kind == "object":
            written.append(json.dumps(_plain(found)))
        elif found in ("(", "[", "{"):
            commas.append(found != "(")
        elif found in (")", "]", "}") and not (commas and commas.pop()):
            raise ValueError("brackets of no tuple, list or dict")
        elif found == "," and commas:
            commas[-1] = True
        if kind in ("string", "object"):
            continue
        if kind != "trailing_comma":
            written.append(_AS_JSON.get(found, found))
    if place != len(text):
        raise ValueError("not only lists, tuples and dicts of plain values")
    return "".join(written)


def _plain(written: str) -> str | float:
    """The value for a constructor call such as `datetime.date(2026, 1, 28)` or `Decimal('1.50')`. Raises `ValueError`:
    there is no such object."""
    name, _, rest = written.removeprefix("datetime.").partition("(")
    inner = rest[:-1]
    if name == "UUID":
        return inner[1:-1]
    try:
        if name == "Decimal":
            exact = Decimal(inner[1:-1])
            number = float(exact)
            return number if math.isfinite(number) and Decimal(repr(number)) == exact else inner[1:-1]
        given = [_ARGUMENT.fullmatch(part.strip()) for part in inner.split(",") if part.strip()]
        if not all(given):
            raise ValueError("not a date or time as repr writes it")
        positional = [int(it[2]) for it in given if it and it[2] and not it[1]]
        named: dict[str, Any] = {it[1]: int(it[2]) if it[2] else UTC for it in given if it and it[1]}
        made = _CLASSES[name](*positional, **named)
    except (TypeError, OverflowError, ArithmeticError) as error:
        raise ValueError(f"no {name}") from error
    return str(made) if isinstance(made, timedelta) else str(made.isoformat())


_ARGUMENT = re.compile(r"(?:([a-z]{1,20})=)?(?:(-?\d{1,15})|datetime\.timezone\.utc)")
_CLASSES: dict[str, Callable[..., date | time | timedelta]] = {
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
}
