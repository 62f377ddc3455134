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
_FIRST = r"\d(?<!\d\d)"
"""The first digit of a number. A search that begins with a digit is fast; one that begins with a look behind is not."""
_BETWEEN = r"[^\d\x00\n]|[^\w\x00\n]{1,4}"
_YEAR = re.compile(rf"{_FIRST}\d{{{_LONG - 1}}}(?!\d)")
_REACH = 32
"""Characters before and behind a year that may belong to the same date."""
_THREE_NUMBERS = re.compile(
    rf"({_FIRST}(?:\d{{{_LONG - 1}}}|\d?))(?=({_BETWEEN})({_NUMBER})({_BETWEEN})({_NUMBER})(?!\d))"
)
_SHORT_YEAR = re.compile(
    rf"({_FIRST}(?<!\d[-./ ]\d)\d?)(?=([-./ ])(\d{{1,{_SHORT}}})([-./ ])(\d{{1,{_SHORT}}})(?!\d)(?![-./]\d))"
)
"""No part of an IP address or of a list."""
_WORD = r"[^\W\d_]{3,12}\.?"
_WITH_WORD = re.compile(
    rf"(?P<day>{_FIRST}\d?)(?:st|nd|rd|th)?\.?[ -](?:de |of )?(?P<word>{_WORD}),?[ -](?:de )?(?P<year>\d{{4}})(?!\d)"
    rf"|\b(?P<word2>{_WORD}) (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year2>\d{{4}})(?!\d)"
    rf"|(?P<year3>{_FIRST}\d{{3}})[ -](?P<word3>{_WORD})[ -](?P<day3>\d{{1,2}})(?!\d)"
)
_NO_MONTHS_LIST = "after and before born for from hired limit offset page rows since the top until with year"
_NO_MONTHS = frozenset(_NO_MONTHS_LIST.split())
_COMPACT = re.compile(rf"({_FIRST}\d{{7}})(?:\d{{6}})?(?!\d)")
"""A date without separators, perhaps with a time behind it."""


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
    for start, end in _windows(text):
        yield from _with_long_year(text, start, end)
    for found in _SHORT_YEAR.finditer(text):
        numbers = found.group(1, 3, 5)
        years = [at for at in (0, 2) if len(numbers[at]) == _SHORT]
        if readings := frozenset(it for at in years for it in _readings(numbers, at)):
            yield WrittenDate(found.start(1), found.end(5), readings)
    for found in _COMPACT.finditer(text):
        digits = found[1]
        parts = [(digits[:4], digits[4:6], digits[6:]), (digits[4:], digits[2:4], digits[:2])]
        if readings := frozenset(it for numbers in parts for it in _readings(numbers, 0)):
            yield WrittenDate(*found.span(1), readings)


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the parts of a text around its years, in order and without overlaps."""
    start = end = 0
    for found in _YEAR.finditer(text):
        if MIN_YEAR <= int(found[0]) <= MAX_YEAR:
            if found.start() - _REACH > end:
                if end:
                    yield start, end
                start = max(0, found.start() - _REACH)
            end = min(len(text), found.end() + _REACH)
    if end:
        yield start, end


def _with_long_year(text: str, start: int, end: int) -> Iterator[WrittenDate]:
    for found in _THREE_NUMBERS.finditer(text, start, end):
        numbers = found.group(1, 3, 5)
        years = [at for at, digits in enumerate(numbers) if len(digits) == _LONG]
        if len(years) == 1 and (readings := frozenset(_readings(numbers, years[0]))):
            yield WrittenDate(found.start(1), found.end(5), readings)
    for found in _WITH_WORD.finditer(text, start, end):
        year, word, day = (found[name] or found[f"{name}2"] or found[f"{name}3"] for name in ("year", "word", "day"))
        if word.lower().rstrip(".") not in _NO_MONTHS and is_date(int(year), 1, int(day)):
            yield WrittenDate(*found.span(), frozenset({DateReading(int(year), ANY_MONTH, int(day))}))


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
