"""Knows the words in names of arguments and columns that say whether their numbers may be parts of a date. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

_WORDS = re.compile(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+")
"""`page` and `Size` of `pageSize`."""
_NOT_DATE_LIST = "id ids page pages limit offset size count top skip cursor version index per number first last max min"
NOT_DATE_WORDS = frozenset(_NOT_DATE_LIST.split())
"""Numbers with such a name are no parts of a date."""
_YEARS_LIST = "year years y yy yyyy jahr jahre annee ano anno jaar"
YEAR_WORDS = frozenset(_YEARS_LIST.split())
_MONTHS_LIST = "month months m mm monat monate mois mes mese maand"
MONTH_WORDS = frozenset(_MONTHS_LIST.split())
_DAYS_LIST = "day days d dd tag tage jour dia giorno dag"
DAY_WORDS = frozenset(_DAYS_LIST.split())
_WHOLE_LIST = "date dob birth birthday birthdate born datum geburtsdatum geburtstag fecha data"
WHOLE_DATE_WORDS = DAY_WORDS | frozenset(_WHOLE_LIST.split())
DATE_WORDS = YEAR_WORDS | MONTH_WORDS | WHOLE_DATE_WORDS


@lru_cache(1_024)
def words_of(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(name))
