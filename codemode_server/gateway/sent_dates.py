"""The dates that a program sends with a call: as texts, also encoded ones, and as numbers for year, month and day, also
in a query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import product
from typing import Any

from codemode_server.gateway.date_words import (
    DATE_WORDS,
    DAY_WORDS,
    MONTH_WORDS,
    NOT_DATE_WORDS,
    WHOLE_DATE_WORDS,
    YEAR_WORDS,
    words_of,
)
from codemode_server.gateway.query_dates import MIN_AGE_DAYS, dates_of_query, is_selection, without_ids
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

MAX_DATES = 31
"""So many younger ones are the days of a month. A call that sends more may be testing them."""
_MAX_READINGS = 2
"""Of a date: its day may be its month."""
_MAX_COMBINATIONS = 10_000
"""Of years, months and days in all arguments of a call. What would be more counts as sent without being listed."""
_NUMBER = re.compile(r"\d+")
_NO_LETTERS = re.compile(r"[\d\W]{1,12}")
_MAX_NUMBER = 10**12
_YEAR_DIGITS, _PART_DIGITS, _SIX = 4, 2, 6


@dataclass
class _Parts:
    """Years, months and days."""

    years: set[int] = field(default_factory=set)
    months: set[int] = field(default_factory=set)
    days: set[int] = field(default_factory=set)

    def add_named(self, words: frozenset[str], digits: str) -> None:
        if not digits.isdigit() or len(digits) > _YEAR_DIGITS:
            return
        if words & YEAR_WORDS:
            self.years.update(year for year in years_of(digits) if MIN_YEAR <= year <= MAX_YEAR)
        if words & MONTH_WORDS and int(digits) <= MAX_MONTH:
            self.months.add(int(digits))
        if words & DAY_WORDS and int(digits) <= MAX_DAY:
            self.days.add(int(digits))

    def add(self, other: _Parts) -> None:
        self.years |= other.years
        self.months |= other.months
        self.days |= other.days

    def have(self, date: DateReading) -> bool:
        return (
            date.year in self.years
            and (date.month == ANY_MONTH or bool(self.months & {date.month, ANY_MONTH}))
            and date.day in self.days
        )

    def count(self) -> int:
        return len(self.years) * len(self.months) * len(self.days)

    def dates(self) -> Iterator[DateReading]:
        for year, month, day in product(self.years, self.months, self.days):
            if is_date(year, month or 1, day):
                yield DateReading(year, month, day)


@dataclass
class _Dates:
    """The dates that arguments may mean, and what is known of those that are not listed."""

    are_all: bool
    """Whether all of the arguments was read."""
    listed: set[DateReading] = field(default_factory=set)
    others: _Parts = field(default_factory=_Parts)
    """Of too many combinations to list."""
    are_tested: bool = False
    """Whether a query tests birth dates."""
    _left: int = _MAX_COMBINATIONS

    def __bool__(self) -> bool:
        return bool(self.listed or self.others.years)

    def add(self, parts: _Parts) -> None:
        if (count := parts.count()) <= self._left:
            self._left -= count
            self.listed.update(parts.dates())
        else:
            self.others.add(parts)


class SentDates:
    """Read when they are first asked for. May be used in any thread."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = {**arguments}

    @cached_property
    def may_be_guesses(self) -> bool:
        """Whether one of them is as old as most birth dates, there are many before today, or a query tests birth
        dates."""
        dates = self._dates
        if not dates.are_all or dates.are_tested or dates.others.years:
            return True
        today = datetime.now(UTC).date()
        oldest, newest = ((it.year, it.month, it.day) for it in (today - timedelta(MIN_AGE_DAYS), today))
        young = [it for it in dates.listed if it <= newest]
        return min(young, default=newest) < oldest or len(young) > _MAX_READINGS * MAX_DATES

    def have(self, date: str) -> bool:
        """Whether a text is one of these dates, perhaps in another form or with a time."""
        return bool(self._dates) and self.have_any(readings_of(date))

    def have_any(self, readings: frozenset[DateReading]) -> bool:
        dates, days = self._dates, self._days
        return any(
            it in dates.listed
            or it._replace(month=ANY_MONTH) in dates.listed
            or (it.month == ANY_MONTH and (it.year, it.day) in days)
            or dates.others.have(it)
            for it in readings
        )

    @cached_property
    def _days(self) -> frozenset[tuple[int, int]]:
        return frozenset((it.year, it.day) for it in self._dates.listed)

    @cached_property
    def _dates(self) -> _Dates:
        """What the arguments may mean."""
        searched = searched_value(_without_ids(self._arguments))
        dates = _Dates(are_all=searched.is_complete)
        dates.listed.update(it for written in dates_in(searched.text) for it in written.readings)
        if windows := marked_windows(searched.text):
            from codemode_server.privacy.plain_reading import plain_reading  # NumPy takes a tenth of a second

            plain = plain_reading(searched, windows).searched.text
            dates.listed.update(it for written in dates_in(plain) for it in written.readings)
        _add_numbers(dates, self._arguments)
        return dates


def _without_ids(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without the ids in texts of queries."""
    shown = {**arguments}
    waiting: list[Any] = [shown]
    while waiting:
        item = waiting.pop()
        for key, inner in [*(item.items() if isinstance(item, dict) else enumerate(item))]:
            if isinstance(inner, str) and is_selection(inner):
                item[key] = without_ids(inner)
            elif isinstance(inner, dict | list):
                item[key] = inner.copy()
                waiting.append(item[key])
    return shown


def _add_numbers(dates: _Dates, arguments: Mapping[str, Any]) -> None:
    """Adds the dates whose parts are numbers, or short texts, of their own: three in a row of a list, those of one
    object, those in one query, and those whose names say what they are."""
    named = _Parts()
    waiting: list[tuple[str, Any]] = [("", arguments)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, dict):
            waiting += ((str(key), inner) for key, inner in item.items())
            _add_object(dates, item)
        elif isinstance(item, list):
            words = words_of(name)
            waiting += ((name, inner) for inner in item if type(inner) is not int or words & DATE_WORDS)
            if not NOT_DATE_WORDS & words:
                row = ", ".join(_digits_of(inner) or "x" for inner in item)
                dates.listed.update(it for written in dates_in(row) for it in written.readings)
        elif isinstance(item, str) and (held := unwrapped(item)):
            waiting.append((name, held[1]))
        elif digits := _digits_of(item):
            words = words_of(name)
            named.add_named(words, digits)
            if len(digits) == _SIX and digits.isdigit() and words & WHOLE_DATE_WORDS:
                dates.listed.update(readings_of_six(digits))
        elif isinstance(item, str) and (query := dates_of_query(item, name)):
            dates.add(_Parts({*query.years}, {*query.small}, {*query.small}))
            dates.are_tested |= query.tests_birth_dates
    dates.add(named)


def _add_object(dates: _Dates, item: dict[str, Any]) -> None:
    """Adds the dates of which an object has the year, the month and the day as values of their own."""
    parts = [
        digits
        for key, value in item.items()
        if not NOT_DATE_WORDS & words_of(str(key))
        for digits in _NUMBER.findall(_digits_of(value))
        if len(digits) in (1, _PART_DIGITS, _YEAR_DIGITS)
    ]
    long = [digits for digits in parts if len(digits) == _YEAR_DIGITS]
    years = {year for digits in long if MIN_YEAR <= (year := int(digits)) <= MAX_YEAR}
    if not years:
        return
    small = {int(digits) for digits in parts if len(digits) != _YEAR_DIGITS and int(digits) <= MAX_DAY}
    if len(parts) - len(long) > 1:
        dates.add(_Parts(years, small, small))
    elif any(
        isinstance(value, str) and value.isalpha() and words_of(str(key)) & MONTH_WORDS for key, value in item.items()
    ):
        dates.add(_Parts(years, {ANY_MONTH}, small))


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
