"""Keeps a program that sees tokens from testing guesses of birth dates: there are few enough to try them all.

Such a program has no date that a token stands for, unless a tool that has received it answers with it. So a date that
it writes itself is not replaced by a token: that would tell it which of all dates the token stands for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from codemode_server.domain.privacy_tokens import label_of
from codemode_server.known_values import KnownValues, Span
from codemode_server.privacy.findings import Finding, Kind
from codemode_server.privacy_settings import ALL_KINDS, PrivacySettings

_LABEL = label_of(Kind.BIRTH_DATE)


class WithoutBirthDates:
    """Known values but for birth dates."""

    def __init__(self, values: KnownValues) -> None:
        self._values = values

    def spans(self, text: str) -> list[Span]:
        return [one for one in self._values.spans(text) if not one[2].startswith(f"<{_LABEL}_")]


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
    dates = [] if settings.programs == "values" else [it for it in found if it.kind == Kind.BIRTH_DATE]
    sent = json.dumps(arguments, ensure_ascii=False) if dates else ""
    return {(it.kind, it.value): f"<{_LABEL}>" for it in dates if it.value in sent}
