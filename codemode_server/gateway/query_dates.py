"""Reads from a query which numbers in it may be parts of dates, and whether it tests a birth date. Pure.

`substr(born, 1, 4) = '1987' AND substr(born, 6, 2) = '03'` has no date, and still tells whether a guess is right. Only
forms that queries usually have are recognised: a language that computes can make a date of anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from codemode_server.gateway.date_words import DATE_WORDS, NOT_DATE_WORDS, words_of
from codemode_server.privacy.date_parts import is_birth_field
from codemode_server.privacy.statements import QUERY_BEGINNING, Likeness, likeness
from codemode_server.privacy.written_dates import MAX_DAY, MAX_YEAR, MIN_YEAR

MAX_CHARACTERS = 50_000
"""A longer query is not read, and counts as one that tests birth dates."""
MIN_AGE_DAYS = 730
"""Younger dates are in ordinary arguments: what has changed since yesterday."""
_MAX_NAMES = 20
_BIRTH = "\x01"
"""In place of each name of a column with birth dates."""
_FLAGS = re.IGNORECASE
_QUERY_WORD = re.compile(r"\b(?:select|where|having|returning)\b", _FLAGS)
_NAME = re.compile(r"[^\W\d]\w{0,63}")
_NUMBER = re.compile(r"(?<![^\W_])(?<![^\W\d_]_)(?:\d{4}|\d\d?)(?![^\W_])")
_DATE_FUNCTION = re.compile(
    r"\b(?:strftime|date_?part|extract|to_char|date_format|date_trunc|make_?date|julianday|dayof\w+|year|month|day)\s*\(",
    _FLAGS,
)
_LITERAL = r"(?:'\d{1,4}'|\d{1,4})(?!\s*[-+*/|.:\d]|[\w'])"
"""No date: that has more digits."""
_COMPARED = re.compile(
    rf"(?<![\w.])(?P<name>[^\W\d][\w.]{{0,80}})[\"`\]]?\s*(?:[=<>!]+\s*{_LITERAL}|(?:not\s+)?"
    rf"(?:in\s*\(\s*{_LITERAL}(?:\s*,\s*{_LITERAL})*\s*\)|between\s+{_LITERAL}\s+and\s+{_LITERAL}))",
    _FLAGS,
)
"""A column and the numbers that it is compared with."""
_PAGE = re.compile(r"\b(?:limit|offset|top|fetch\s+first|fetch\s+next)\s+\(?\d+(?:\s*,\s*\d+)?", _FLAGS)
_RENAMES = re.compile(
    r"--|/\*|#|\b(?:with|view|table|values|extend|project|rename|eval|let)\b|\bas\s+[^\s,()]+\s*\(|\)\s*\w+\s*\("
    r"|\bselect\b.*\bselect\b",
    _FLAGS | re.DOTALL,
)
"""What a query has in which any name may be a new one."""
_LAST_WORD = re.compile(r"\w+\Z")
_BEFORE_NAME = 20
"""Characters before a name in which the word or mark before it is."""
_BEFORE_COLUMNS_LIST = "select distinct where and or not on by having when then else all from"
_BEFORE_COLUMNS = frozenset(_BEFORE_COLUMNS_LIST.split())
_OPERATOR = r"(?:[=<>!~]+|\b(?:i?like|between|in|glob|regexp|rlike|similar\s+to|is|when)\b)"
_BEHIND_COLUMN = r"(?:[\s)\"`\]]|,\s*[\w'%-]+|[-+*/]\s*[\w.]+|::\s*\w+|as\s+\w+(?=\s*\))|collate\s+\w+)*+"
_TESTS = re.compile(
    rf"{_BIRTH}{_BEHIND_COLUMN}(?:not\s+)?{_OPERATOR}[^\w,;{_BIRTH}]*(?:\w+[\s('\"]+)?[%_^]*\d"
    rf"|\d['\"%\s)]*[=<>!]+\s*(?:\w+\s*\(\s*)*+[\w.\"`\[]{{0,80}}?{_BIRTH}"
    rf"|\w\([^()]{{0,200}}{_BIRTH}[^()']{{0,200}}'[^'()\d]{{0,200}}\d"
    rf"|\w\([^()']{{0,200}}'[^'()\d]{{0,200}}\d[^()]{{0,200}}{_BIRTH}",
    _FLAGS,
)
"""A birth date, or a part of it, that is compared with a literal, or that a function gets together with one."""


@dataclass(frozen=True)
class QueryDates:
    """Numbers that may be years, numbers that may be months or days, and whether a birth date is tested anyway."""

    years: frozenset[int]
    small: frozenset[int]
    tests_birth_dates: bool


def dates_of_query(text: str, name: str) -> QueryDates | None:
    """What a text has, if it may be a query; `name` is the argument that it is given in."""
    begins = QUERY_BEGINNING.match(text) is not None
    if len(text) > MAX_CHARACTERS:
        return QueryDates(frozenset(), frozenset(), tests_birth_dates=True) if begins else None
    if not (begins or is_selection(text) or likeness(text, name) is not Likeness.PROSE):
        return None
    rest = without_ids(_PAGE.sub(" ", text))
    numbers = _NUMBER.findall(rest)
    years = frozenset(year for it in numbers if MIN_YEAR <= (year := int(it)) <= MAX_YEAR)
    small = [int(it) for it in numbers if len(it) <= 2 and int(it) <= MAX_DAY]
    return QueryDates(years, frozenset(small if len(small) > 1 else ()), _tests_birth_dates(rest))


def is_selection(text: str) -> bool:
    """Whether a text has the words of a query that selects something."""
    return _QUERY_WORD.search(text) is not None


def without_ids(text: str) -> str:
    """A query without the ids and the like that it compares columns with: `id IN (3, 14, 1987)` has no date."""
    return _without_compared(text, NOT_DATE_WORDS, are_given=True) if len(text) <= MAX_CHARACTERS else text


def _tests_birth_dates(text: str) -> bool:
    marked = _NAME.sub(lambda it: _BIRTH if is_birth_field(it[0]) else it[0], text)
    if _BIRTH in marked and _TESTS.search(marked):
        return True
    if _BIRTH not in marked and not _DATE_FUNCTION.search(marked):
        return False
    newest = (datetime.now(UTC) - timedelta(MIN_AGE_DAYS)).year
    left = _without_compared(marked, DATE_WORDS, are_given=False)
    return any(MIN_YEAR <= int(it) <= newest for it in _NUMBER.findall(left))


def _without_compared(text: str, words: frozenset[str], *, are_given: bool) -> str:
    """Without the comparisons of columns that have one of these words in their names, or of those that have none; those
    whose names the query may have given to something else stay."""
    if _RENAMES.search(text):
        return text
    are_columns: dict[str, bool] = {}

    def shown(found: re.Match[str]) -> str:
        name = found["name"].rpartition(".")[2]
        if bool(words_of(name) & words) is not are_given:
            return found[0]
        if name not in are_columns:
            are_columns[name] = len(are_columns) < _MAX_NAMES and _is_column(name, text)
        return " " if are_columns[name] else found[0]

    return _COMPARED.sub(shown, text)


def _is_column(name: str, text: str) -> bool:
    """Whether a query does not give this name itself, as in `substr(born, 1, 4) AS id`."""
    return bool(name) and all(
        _is_before_column(text[max(0, it.start() - _BEFORE_NAME) : it.start()])
        for it in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text, _FLAGS)
    )


def _is_before_column(before: str) -> bool:
    unquoted = before.removesuffix(before[-1:]) if before[-1:] in ('"', "`", "[") else before
    stripped = unquoted.rstrip()
    if not stripped or stripped[-1] in ",.(=<>+-*/":
        return True
    word = _LAST_WORD.search(stripped)
    return stripped != unquoted and word is not None and word[0].lower() in _BEFORE_COLUMNS
