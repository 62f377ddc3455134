"""Keeps a program that sees tokens from testing guesses of birth dates: there are few enough to try them all.

Such a program has no date that a token stands for, unless a tool that has received it answers with it. So a date that
it writes itself is not replaced by a token: that would tell it which of all dates the token stands for. A date that it
sends in another form, as a number for the year, the month and the day, counts as one that it has written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN, label_of, whole_of
from codemode_server.json_texts import text_batches
from codemode_server.known_values import Found, KnownValues, Span, found_in
from codemode_server.privacy.findings import Finding, Kind
from codemode_server.privacy.known_in_values import tokenized
from codemode_server.privacy.token_map import KnownTexts
from codemode_server.privacy_settings import ALL_KINDS, PrivacySettings

_LABEL = label_of(Kind.BIRTH_DATE)
_DIGITS = re.compile(r"\d+")
_TIME = re.compile(r"(?:(?<=\d)T\d|[\s,]+(?:\d{1,2}:|\d{5})).*", re.DOTALL)
"""What stands behind a date."""
_COMPACT = 8
"""Digits of a date without separators."""
_MONTHS = frozenset(str(number) for number in range(1, 13))


class WithoutBirthDates:
    """Known values but for birth dates."""

    def __init__(self, values: KnownValues) -> None:
        self._values = values

    def spans(self, text: str) -> list[Span]:
        return [one for one in self._values.spans(text) if not _is_birth_date(one[2])]


class SentNumbers:
    """The groups of digits in the arguments of a call."""

    def __init__(self, arguments: JsonValue) -> None:
        self._numbers: set[str] = set()
        for batch in text_batches(arguments):
            for digits in {*_DIGITS.findall("\n".join(batch.texts))}:
                self._numbers.update(_groups_of(digits))

    def have_date(self, date: str) -> bool:
        """Whether a program that has sent these may have meant this date: they have its year, month and day. A month
        may be lacking, since it can be sent as a word."""
        digits = _DIGITS.findall(_TIME.sub("", date))
        if len(digits) == 1 and len(digits[0]) >= _COMPACT:
            return any(self._have(parts) for parts in _parts_of_compact(digits[0]))
        return self._have([_plain(it) for it in digits])

    def _have(self, groups: list[str]) -> bool:
        lacking = [it for it in groups if it not in self._numbers and not self._has_year(it)]
        return bool(groups) and (not lacking or (len(lacking) == 1 and len(groups) > 2 and lacking[0] in _MONTHS))

    def _has_year(self, group: str) -> bool:
        """Whether a year was sent with its last two digits only."""
        return len(group) == 4 and _plain(group[2:]) in self._numbers


def searched_for(values: KnownValues, settings: PrivacySettings) -> KnownValues:
    """The known values that are looked for in what programs write: no birth dates, if no program can have one."""
    kinds = {kind for released in settings.release.values() for kind in released}
    may_have = settings.programs == "values" or settings.on_release == "ask" or kinds & {Kind.BIRTH_DATE, ALL_KINDS}
    return values if may_have else WithoutBirthDates(values)


def sent_dates(
    found: Iterable[Finding], arguments: Mapping[str, Any], settings: PrivacySettings
) -> dict[tuple[str, str], str]:
    """By kind and value, the birth dates in a result that the program itself has sent with the call, each with what is
    put in its place: its kind, since a token would say whether it is a known one."""
    dates = set() if settings.programs == "values" else {it.value for it in found if it.kind == Kind.BIRTH_DATE}
    if not dates:
        return {}
    sent = SentNumbers({**arguments})
    return {(Kind.BIRTH_DATE, date): f"<{_LABEL}>" for date in dates if sent.have_date(date)}


def without_known(known: KnownTexts, value: JsonValue, server: str, arguments: Mapping[str, Any]) -> JsonValue:
    """What a protected server answers, as `without_known_dates` leaves it, with tokens in place of the known names that
    count there."""
    found = found_in(known, value)
    shown = _without_dates(known, value, found, arguments)
    named: JsonValue = known.with_names(shown, found if shown is value else found_in(known, shown), server)
    return named


def without_known_dates(known: KnownTexts, value: JsonValue, arguments: Mapping[str, Any]) -> JsonValue:
    """What a protected server answers, with tokens in place of the known birth dates in it, also in keys and in prose,
    but for those that the program itself has sent with the call."""
    return _without_dates(known, value, found_in(known, value), arguments)


def _without_dates(known: KnownTexts, value: JsonValue, found: Found, arguments: Mapping[str, Any]) -> JsonValue:
    dates = [it for it in known.known_among(found) if it.kind == Kind.BIRTH_DATE]
    if not dates:
        return value
    sent = SentNumbers({**arguments})
    others = {it.token for it in dates if it.original and not sent.have_date(it.original)}
    shown: JsonValue = tokenized(value, found, lambda _, span: span[2] in others, with_numbers=True)
    return shown


def _is_birth_date(put: str) -> bool:
    token = TOKEN.fullmatch(whole_of(put))
    return token is not None and token[1] == _LABEL


def _plain(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _groups_of(digits: str) -> set[str]:
    """A group of digits as it is compared, and what it says of a year and of a date without separators."""
    groups = {_plain(digits)}
    if len(digits) == 4:
        groups.add(_plain(digits[2:]))
    elif len(digits) == 6:
        groups.update(_plain(digits[at : at + 2]) for at in (0, 2, 4))
    elif len(digits) >= _COMPACT:
        groups.update(*_parts_of_compact(digits))
    return groups


def _parts_of_compact(digits: str) -> tuple[list[str], list[str]]:
    """Its parts if the year comes first, and if it comes last."""
    return (
        [_plain(it) for it in (digits[:4], digits[4:6], digits[6:8])],
        [_plain(it) for it in (digits[:2], digits[2:4], digits[4:8])],
    )
