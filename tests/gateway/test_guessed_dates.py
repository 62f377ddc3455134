"""Which dates count as sent by a program, and which known values are no birth dates."""

from __future__ import annotations

from typing import Any

import pytest

from codemode_server.domain.privacy_tokens import label_of
from codemode_server.gateway.guessed_dates import WithoutBirthDates, sent_dates
from codemode_server.known_values import Span
from codemode_server.privacy.findings import Finding, Kind
from codemode_server.privacy_settings import PrivacySettings
from tests.work import seconds_of

SENT: dict[str, dict[str, Any]] = {
    "as it is": {"day": "1987-03-14"},
    "among others": {"rows": [{"note": "since 1987-03-14, at least"}]},
    "as a key": {"days": {"1987-03-14": 1}},
    "as numbers": {"year": 1987, "month": 3, "day": 14},
    "in another order": {"day": "14.03.1987"},
    "without separators": {"day": "19870314"},
    "as one number": {"day": 14031987},
    "with a time": {"day": "19870314T101500"},
    "with the month as a word": {"day": "14 mars 1987"},
    "with two digits of the year": {"day": "140387"},
}
NOT_SENT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "another day": {"day": "1987-03-15"},
    "another year": {"day": "1988-03-14"},
    "a number of days": {"days": 6281},
}
FORMS = ["1987-03-14", "14.03.1987", "14.3.87", "14 March 1987", "1987-03-14T00:00:00Z", "14/03/1987 23:59", "19870314"]


class OwnKind:
    def spans(self, text: str) -> list[Span]:
        return [(0, 10, "<BIRTH_DATE_1>"), (11, 21, f"<{label_of('birth_date_of_child')}_1>")]


def is_sent(date: str, arguments: dict[str, Any]) -> bool:
    return bool(sent_dates([Finding(Kind.BIRTH_DATE, date, 0.95)], arguments, PrivacySettings()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", SENT)
def test_a_date_counts_as_sent_in_whatever_form_it_was(form: str, way: str) -> None:
    assert is_sent(form, SENT[way])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", NOT_SENT)
def test_other_dates_do_not_count_as_sent(form: str, way: str) -> None:
    assert not is_sent(form, NOT_SENT[way])


def test_the_work_grows_with_the_dates_and_the_arguments_and_not_with_their_product() -> None:
    def seconds(size: int) -> float:
        found = [Finding(Kind.BIRTH_DATE, f"{1900 + number % 100}-03-{number}", 0.95) for number in range(size)]
        arguments = {"rows": ["x" * 100] * size * 2}
        return seconds_of(lambda: sent_dates(found, arguments, PrivacySettings()))

    assert seconds(4_000) < 8 * seconds(1_000)


def test_an_own_kind_whose_name_begins_like_birth_dates_is_looked_for() -> None:
    assert WithoutBirthDates(OwnKind()).spans("") == [(11, 21, "<BIRTH_DATE_OF_CHILD_1>")]
