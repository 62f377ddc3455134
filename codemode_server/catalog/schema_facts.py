"""Constraints of a JSON Schema that Python types do not express, in a few words each: `1..10`, `at most 5 items`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from codemode_server.catalog.json_schema import Flat, enum_of, kinds_of, tuple_of
from codemode_server.catalog.untrusted import is_small, one_line, short_repr

_MAX_NUMBER = 2**53 - 1
"""Generators write the largest safe integer for no bound."""


def facts_of(flat: Flat, said: str, *, has_values: bool) -> list[str]:
    """The constraints that `said`, its description, does not repeat. `has_values`: its type shows the enum."""
    return [fact for fact in _facts(flat, said, has_values=has_values) if not _is_said(fact, said)]


def _facts(flat: Flat, said: str, *, has_values: bool) -> Iterable[str]:
    values = enum_of(flat)
    if values and not has_values:
        yield f"one of {len(values):,} values, such as {short_repr(values[:3], 80)}"
    yield from _range(_number(flat, "minimum"), _number(flat, "maximum"), ">= {}", "<= {}")
    for key, words in (("exclusiveMinimum", ">"), ("exclusiveMaximum", "<"), ("multipleOf", "multiple of")):
        if (value := _number(flat, key)) is not None:
            yield f"{words} {value}"
    for key, unit in (("Length", "characters"), ("Items", "items"), ("Properties", "keys")):
        least, most = _number(flat, f"min{key}"), _number(flat, f"max{key}")
        least = least if least and (least > 1 or unit != "characters") else None
        yield from (f"{fact} {unit}" for fact in _range(least, most, "at least {}", "at most {}"))
    pattern = flat.get("pattern")
    if isinstance(pattern, str) and pattern not in said and len(pattern) <= 100:
        yield f"pattern {one_line(pattern, 100)}"
    for key in ("format", "contentEncoding"):
        name = flat.get(key)
        if isinstance(name, str) and re.fullmatch(r"[a-z0-9-]{2,20}", name) and name not in said.lower():
            yield name
    places = [kinds_of(part) if isinstance(part, dict) else [] for part in tuple_of(flat)]
    if len(places) > 1:
        yield f"by place: {', '.join(one_line(kinds[0], 20) if kinds else 'any' for kinds in places)}"
    if flat.get("deprecated") is True:
        yield "deprecated"


def _range(low: float | None, high: float | None, at_least: str, at_most: str) -> Iterable[str]:
    if low is not None and high is not None:
        yield f"{low}..{high}" if low != high else str(low)
    elif low is not None:
        yield at_least.format(low)
    elif high is not None:
        yield at_most.format(high)


def _number(flat: Flat, key: str) -> int | float | None:
    value = flat.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not is_small(value):
        return None
    return value if abs(value) < _MAX_NUMBER else None


def _is_said(fact: str, said: str) -> bool:
    """True if the description already contains the numbers of a bound."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", fact)
    is_bound = re.match(r"[-\d<>]|at (?:most|least)", fact) is not None
    return is_bound and all(re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", said) for number in numbers)
