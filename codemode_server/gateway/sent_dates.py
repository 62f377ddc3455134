"""The dates that a program sends with a call: as texts, also encoded ones, and as numbers for year, month and day."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

from codemode_server.privacy.encodings import unwrapped
from codemode_server.privacy.escape_marks import marked_windows
from codemode_server.privacy.parts import searched_value
from codemode_server.privacy.written_dates import (
    ANY_MONTH,
    MAX_DAY,
    MAX_MONTH,
    MAX_YEAR,
    MIN_YEAR,
    DateReading,
    dates_in,
    is_date,
    readings_of,
    readings_of_six,
    years_of,
)

MIN_AGE_DAYS = 730
"""Younger dates are in ordinary arguments: what has changed since yesterday."""
MAX_DATES = 31
"""So many younger ones are the days of a month. A call that sends more may be testing them."""
_MAX_READINGS = 2
"""Of a date: its day may be its month."""
_WORDS = re.compile(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+")
"""`page` and `Size` of `pageSize`."""
_NUMBER = re.compile(r"\d+")
_NO_LETTERS = re.compile(r"[\d\W]{1,12}")
_NO_PARTS_LIST = "id ids page pages limit offset size count top skip cursor version index per number first last max min"
_NO_PARTS = frozenset(_NO_PARTS_LIST.split())
"""Words of the names of arguments whose numbers are no parts of a date."""
_YEARS_LIST = "year years y yy yyyy jahr jahre annee ano anno jaar"
_YEARS = frozenset(_YEARS_LIST.split())
_MONTHS_LIST = "month months m mm monat monate mois mes mese maand"
_MONTHS = frozenset(_MONTHS_LIST.split())
_DAYS_LIST = "day days d dd tag tage jour dia giorno dag"
_DAYS = frozenset(_DAYS_LIST.split())
_DATES_LIST = "date dob birth birthday birthdate born datum geburtsdatum geburtstag fecha data"
_DATES = _DAYS | frozenset(_DATES_LIST.split())
_NAMED = _YEARS | _MONTHS | _DATES
_MAX_NUMBER = 10**12
_YEAR_DIGITS, _PART_DIGITS, _SIX = 4, 2, 6


class SentDates:
    """Read when they are first asked for. May be used in any thread."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = {**arguments}

    @cached_property
    def may_be_guesses(self) -> bool:
        """Whether one of them is as old as most birth dates, or there are many before today."""
        dates, are_all = self._dates
        today = datetime.now(UTC).date()
        oldest, newest = ((it.year, it.month, it.day) for it in (today - timedelta(MIN_AGE_DAYS), today))
        young = [it for it in dates if it <= newest]
        return not are_all or min(young, default=newest) < oldest or len(young) > _MAX_READINGS * MAX_DATES

    def have(self, date: str) -> bool:
        """Whether a text is one of these dates, perhaps in another form or with a time."""
        return bool(self._dates[0]) and self.have_any(readings_of(date))

    def have_any(self, readings: frozenset[DateReading]) -> bool:
        dates, days = self._dates[0], self._days
        return any(
            it in dates
            or it._replace(month=ANY_MONTH) in dates
            or (it.month == ANY_MONTH and (it.year, it.day) in days)
            for it in readings
        )

    @cached_property
    def _days(self) -> frozenset[tuple[int, int]]:
        return frozenset((it.year, it.day) for it in self._dates[0])

    @cached_property
    def _dates(self) -> tuple[frozenset[DateReading], bool]:
        """What the arguments may mean, and whether all of them was read."""
        searched = searched_value(self._arguments)
        found = {it for written in dates_in(searched.text) for it in written.readings}
        if windows := marked_windows(searched.text):
            from codemode_server.privacy.plain_reading import plain_reading  # NumPy takes a tenth of a second

            plain = plain_reading(searched, windows).searched.text
            found.update(it for written in dates_in(plain) for it in written.readings)
        return frozenset(found.union(_of_numbers(self._arguments))), searched.is_complete


def _of_numbers(arguments: Mapping[str, Any]) -> Iterator[DateReading]:
    """The dates whose parts are numbers, or short texts, of their own: three in a row of a list, those of one object,
    and those whose names say what they are."""
    named = _Parts()
    waiting: list[tuple[str, Any]] = [("", arguments)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, dict):
            waiting += ((str(key), inner) for key, inner in item.items())
            yield from _of_object(item)
        elif isinstance(item, list):
            words = words_of(name)
            waiting += ((name, inner) for inner in item if type(inner) is not int or words & _NAMED)
            if not _NO_PARTS & words:
                row = ", ".join(_digits_of(inner) or "x" for inner in item)
                yield from (it for written in dates_in(row) for it in written.readings)
        elif isinstance(item, str) and (held := unwrapped(item)):
            waiting.append((name, held[1]))
        elif digits := _digits_of(item):
            words = words_of(name)
            named.add_named(words, digits)
            if len(digits) == _SIX and digits.isdigit() and words & _DATES:
                yield from readings_of_six(digits)
    yield from named.dates()


def _of_object(item: dict[str, Any]) -> Iterator[DateReading]:
    """The dates of which an object has the year, the month and the day as values of their own."""
    parts = [
        digits
        for key, value in item.items()
        if not _NO_PARTS & words_of(str(key))
        for digits in _NUMBER.findall(_digits_of(value))
        if len(digits) in (1, _PART_DIGITS, _YEAR_DIGITS)
    ]
    years = [digits for digits in parts if len(digits) == _YEAR_DIGITS]
    if not years:
        return
    small = {int(digits) for digits in parts if len(digits) != _YEAR_DIGITS and int(digits) <= MAX_DAY}
    if len(parts) - len(years) > 1:
        yield from _Parts({*map(int, years)}, small, small).dates()
    elif any(
        isinstance(value, str) and value.isalpha() and words_of(str(key)) & _MONTHS for key, value in item.items()
    ):
        yield from (it._replace(month=ANY_MONTH) for it in _Parts({*map(int, years)}, {1}, small).dates())


@dataclass
class _Parts:
    """Years, months and days."""

    years: set[int] = field(default_factory=set)
    months: set[int] = field(default_factory=set)
    days: set[int] = field(default_factory=set)

    def add_named(self, words: frozenset[str], digits: str) -> None:
        if not digits.isdigit() or len(digits) > _YEAR_DIGITS:
            return
        if words & _YEARS:
            self.years.update(year for year in years_of(digits) if MIN_YEAR <= year <= MAX_YEAR)
        if words & _MONTHS and int(digits) <= MAX_MONTH:
            self.months.add(int(digits))
        if words & _DAYS and int(digits) <= MAX_DAY:
            self.days.add(int(digits))

    def dates(self) -> Iterator[DateReading]:
        for year, month, day in product(self.years, self.months, self.days):
            if is_date(year, month, day):
                yield DateReading(year, month, day)


@lru_cache(1_024)
def words_of(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(name))


def _digits_of(value: object) -> str:
    """A number, or a short text without letters; empty for anything else."""
    if type(value) is int:
        return str(value) if 0 <= value < _MAX_NUMBER else ""
    if isinstance(value, bool):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value) if isinstance(value, int | str) else ""
    return text if _NO_LETTERS.fullmatch(text) and _NUMBER.search(text) else ""
