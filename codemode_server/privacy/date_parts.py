"""Reads dates of birth that JSON has in parts: `{"year": 1987, "month": 3, "day": 14}` and `[1987, 3, 14]`. Pure.

Such a date is one value, and gets one token: neither a year nor a day alone is a date of birth.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from codemode_server.privacy.evidence import field_evidence
from codemode_server.privacy.findings import Kind

PARTS = frozenset({"year", "month", "day"})
_FIRST_YEAR = 1800
NEUTRAL_KEYS = frozenset({"date", "start", "text", "value", "formatted", "iso", "iso_date", "isoDate"})
"""Keys that say nothing of their own below a field of dates of birth."""


def is_birth_field(name: str) -> bool:
    """Whether a field holds dates of birth."""
    return field_evidence(name) is Kind.BIRTH_DATE


def date_of_object(item: dict[str, Any]) -> str:
    """The date that an object with a year, a month and a day is, in the form of ISO 8601; empty if it is none."""
    parts = {key.casefold(): part for key, part in item.items()}
    return _date(parts[key] for key in ("year", "month", "day")) if parts.keys() >= PARTS else ""


def date_of_list(rows: list[Any]) -> str:
    """The date that a list of three numbers is, with the year first or last; empty if it is none."""
    return (_date(rows) or _date(reversed(rows))) if len(rows) == len(PARTS) else ""


def _date(parts: Iterable[Any]) -> str:
    numbers = [int(part) if isinstance(part, str) and part.isdecimal() and len(part) <= 4 else part for part in parts]
    if not all(type(number) is int for number in numbers) or numbers[0] < _FIRST_YEAR:
        return ""
    try:
        return datetime.date(*numbers).isoformat()
    except ValueError:
        return ""
