"""Which birth dates in an answer get no token, and which known values are no birth dates."""

from __future__ import annotations

from codemode_server.domain.privacy_tokens import label_of
from codemode_server.gateway.guessed_dates import WithoutBirthDates, withheld_dates
from codemode_server.gateway.sent_dates import SentDates
from codemode_server.known_values import Span
from codemode_server.privacy.findings import Finding, Kind
from codemode_server.privacy_settings import PrivacySettings
from tests.work import seconds_of


class OwnKind:
    def spans(self, text: str) -> list[Span]:
        return [(0, 10, "<BIRTH_DATE_1>"), (11, 21, f"<{label_of('birth_date_of_child')}_1>")]


def test_whether_a_birth_date_was_sent_changes_nothing_in_the_answer_to_a_guess() -> None:
    """The control is a call without a date: all have tokens."""
    found = [Finding(Kind.BIRTH_DATE, date, 0.95) for date in ("1987-03-14", "1988-12-30")]
    withheld = withheld_dates(found, SentDates({"note": "1987-03-14"}), PrivacySettings())
    assert withheld == {(Kind.BIRTH_DATE, it.value): "<BIRTH_DATE>" for it in found}
    assert withheld_dates(found, SentDates({"ids": [1987, 3, 14]}), PrivacySettings()) == {}


def test_the_work_grows_with_the_dates_and_the_arguments_and_not_with_their_product() -> None:
    def seconds(size: int) -> float:
        found = [Finding(Kind.BIRTH_DATE, f"{1900 + number % 100}-03-{number}", 0.95) for number in range(size)]
        arguments = {"rows": ["x" * 100] * size * 2}
        return seconds_of(lambda: withheld_dates(found, SentDates(arguments), PrivacySettings()))

    assert seconds(4_000) < 8 * seconds(1_000)


def test_an_own_kind_whose_name_begins_like_birth_dates_is_looked_for() -> None:
    assert WithoutBirthDates(OwnKind()).spans("") == [(11, 21, "<BIRTH_DATE_OF_CHILD_1>")]
