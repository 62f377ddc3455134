"""Reads dates as people write them. Pure.

A text may be several dates: `02.03.1980` is in February or in March. Each reading has a year, a month and a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MIN_YEAR, MAX_YEAR = 1900, 2099
ANY_MONTH = 0
"""The month of a reading that has a word for it, in whatever language."""
MAX_MONTH, MAX_DAY = 12, 31
_CENTURIES = (1900, 2000)
_LONG, _SHORT = 4, 2
"""Digits of a year."""
_NUMBER = rf"\d{{{_LONG}}}|\d{{1,{_SHORT}}}"
_BETWEEN = r"[^\d\x00\n]|[^\w\x00\n]{1,4}"
_THREE_NUMBERS = re.compile(rf"(?<!\d)(?=({_NUMBER})({_BETWEEN})({_NUMBER})({_BETWEEN})({_NUMBER})(?!\d))")
_WORD = r"[^\W\d_]{3,12}\.?"
_WITH_WORD = re.compile(
    rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?[ -](?:de |of )?(?P<word>{_WORD}),?[ -](?:de )?(?P<year>\d{{4}})"
    r"(?!\d)"
    rf"|\b(?P<word2>{_WORD}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year2>\d{{4}})(?!\d)"
    rf"|(?<!\d)(?P<year3>\d{{4}})[ -](?P<word3>{_WORD})[ -](?P<day3>\d{{1,2}})(?!\d)"
)
_NO_MONTHS_LIST = "after and before born for from hired limit offset page rows since the top until with year"
_NO_MONTHS = frozenset(_NO_MONTHS_LIST.split())
_COMPACT = re.compile(r"(?<!\d)(\d{8})(?!\d{1,5}(?!\d)|\d{7})")
"""A date without separators, perhaps with a time of six digits behind it."""
_SHORT_SEPARATORS = frozenset("-./ ")
"""What may be in a date whose year has two digits."""


class DateReading(NamedTuple):
    year: int
    month: int
    day: int


class WrittenDate(NamedTuple):
    """A part of a text that may be a date."""

    start: int
    end: int
    readings: frozenset[DateReading]


def dates_in(text: str) -> Iterator[WrittenDate]:
    """What may be a date in a text, in no order, also where two of them overlap."""
    for found in _THREE_NUMBERS.finditer(text):
        numbers = found.group(1, 3, 5)
        long_ones = [at for at, digits in enumerate(numbers) if len(digits) == _LONG]
        if len(long_ones) == 1 or (not long_ones and _is_alone(text, found)):
            years = long_ones or [at for at in (0, 2) if len(numbers[at]) == _SHORT]
            if readings := frozenset(it for at in years for it in _readings(numbers, at)):
                yield WrittenDate(found.start(1), found.end(5), readings)
    for found in _WITH_WORD.finditer(text):
        year, word, day = (found[name] or found[f"{name}2"] or found[f"{name}3"] for name in ("year", "word", "day"))
        if word.lower().rstrip(".") not in _NO_MONTHS and is_date(int(year), 1, int(day)):
            yield WrittenDate(*found.span(), frozenset({DateReading(int(year), ANY_MONTH, int(day))}))
    for found in _COMPACT.finditer(text):
        digits = found[1]
        parts = [(digits[:4], digits[4:6], digits[6:]), (digits[4:], digits[2:4], digits[:2])]
        if readings := frozenset(it for numbers in parts for it in _readings(numbers, 0)):
            yield WrittenDate(*found.span(1), readings)


def readings_of(text: str) -> frozenset[DateReading]:
    """What a text may mean that is one date, perhaps with a time behind it; nothing if it is none."""
    return frozenset(it for written in dates_in(text) if written.start == 0 for it in written.readings)


def is_written_date(text: str) -> bool:
    """Whether a text is a date and nothing else."""
    return any((it.start, it.end) == (0, len(text)) for it in dates_in(text))


def readings_of_six(digits: str) -> Iterable[DateReading]:
    """What six digits may mean that are a date."""
    numbers = (digits[:2], digits[2:4], digits[4:])
    return [*_readings(numbers, 0), *_readings(numbers, 2)]


def is_date(year: int, month: int, day: int) -> bool:
    return MIN_YEAR <= year <= MAX_YEAR and 1 <= month <= MAX_MONTH and 1 <= day <= MAX_DAY


def years_of(digits: str) -> Iterable[int]:
    """The years that a number may mean."""
    return [int(digits)] if len(digits) == _LONG else [century + int(digits) for century in _CENTURIES]


def _readings(numbers: tuple[str, ...], year_at: int) -> Iterator[DateReading]:
    one, other = (int(digits) for at, digits in enumerate(numbers) if at != year_at)
    for year in years_of(numbers[year_at]):
        for month, day in ((one, other), (other, one)):
            if is_date(year, month, day):
                yield DateReading(year, month, day)


def _is_alone(text: str, found: re.Match[str]) -> bool:
    """Whether three numbers of two digits are a date rather than a part of an IP address or of a list."""
    first, last = found.start(1), found.end(5)
    if not {found[2], found[4]} <= _SHORT_SEPARATORS:
        return False
    before, after = text[max(0, first - 2) : first], text[last : last + 2]
    is_before = len(before) == len("1.") and before[0].isdigit() and before[1] in _SHORT_SEPARATORS
    is_after = len(after) == len(".1") and after[1].isdigit() and after[0] == found[2] != " "
    return not is_before and not is_after
