"""Constraints of a JSON Schema that Python types do not express, in a few words each: `1..10`, `at most 5 items`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeGuard

from codemode_server.catalog.json_schema import Flat, enum_of, kinds_of, tuple_of
from codemode_server.catalog.untrusted import is_small, one_line, short_repr


def facts_of(flat: Flat, said: str, *, has_values: bool) -> list[str]:
    """The constraints that `said`, its description, does not repeat. `has_values`: its type shows the enum."""
    return [fact for fact in _facts(flat, said, has_values=has_values) if not _is_said(fact, said)]


def _facts(flat: Flat, said: str, *, has_values: bool) -> Iterable[str]:
    values = enum_of(flat)
    if values and not has_values:
        yield f"one of {len(values):,} values, such as {short_repr(values[:3], 80)}"
    yield from _bounds(flat)
    for key, unit in (("Length", "characters"), ("Items", "items"), ("Properties", "keys")):
        yield from _sizes(flat.get(f"min{key}"), flat.get(f"max{key}"), unit)
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


def _is_said(fact: str, said: str) -> bool:
    """True if the description already contains the numbers of a bound."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", fact)
    is_bound = re.match(r"[-\d<>]|at (?:most|least)", fact) is not None
    return is_bound and all(re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", said) for number in numbers)


def _bounds(flat: Flat) -> Iterable[str]:
    low, high = flat.get("minimum"), flat.get("maximum")
    if _is_number(low) and _is_number(high):
        if abs(high) < 2**53 - 1:  # generators write the largest safe integer for no bound
            yield f"{low}..{high}"
        elif abs(low) < 2**53 - 1:
            yield f">= {low}"
    elif _is_number(low) and abs(low) < 2**53 - 1:
        yield f">= {low}"
    elif _is_number(high) and abs(high) < 2**53 - 1:
        yield f"<= {high}"
    for key, sign in (("exclusiveMinimum", ">"), ("exclusiveMaximum", "<"), ("multipleOf", "multiple of")):
        value = flat.get(key)
        if _is_number(value) and abs(value) < 2**53 - 1:
            yield f"{sign} {value}"


def _sizes(least: object, most: object, unit: str) -> Iterable[str]:
    has_least, has_most = _is_number(least) and least not in (0, 1), _is_number(most)
    if has_least and has_most:
        yield f"{least} {unit}" if least == most else f"{least}..{most} {unit}"
    elif has_most:
        yield f"at most {most} {unit}"
    elif has_least:
        yield f"at least {least} {unit}"
    elif least == 1 and unit != "characters":
        yield f"at least 1 of {unit}"


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and is_small(value)
