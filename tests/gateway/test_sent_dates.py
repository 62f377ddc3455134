"""Which dates a program has sent with a call, and whether they may be guesses of birth dates."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from codemode_server.gateway.sent_dates import SentDates
from tests.work import seconds_of

TODAY = datetime.now(UTC).date()
FORMS = ["1987-03-14", "14.03.1987", "14.3.87", "14 March 1987", "1987-03-14T00:00:00Z", "14/03/1987 23:59", "19870314"]
SENT: dict[str, dict[str, Any]] = {
    "as it is": {"day": "1987-03-14"},
    "among others": {"rows": [{"note": "since 1987-03-14, at least"}]},
    "as a key": {"days": {"1987-03-14": 1}},
    "as numbers": {"year": 1987, "month": 3, "day": 14},
    "as numbers beside others": {"year": 1987, "month": 3, "day": 14, "limit": 5, "text": "x"},
    "as numbers below different names": {"from": {"year": 1987}, "month": 3, "day": 14},
    "as numbers with a year of two digits": {"year": 87, "month": 3, "day": 14},
    "as lists of numbers": {"years": [1986, 1987], "months": [3], "days": [*range(1, 32)]},
    "as a list of numbers": {"born": [1987, 3, 14]},
    "as digits in a list": {"born": ["14", "03", "1987"]},
    "as floating point numbers": {"born": [1987.0, 3.0, 14.0]},
    "as a month and a day": {"month": "1987-03", "day": 14},
    "in another order": {"day": "14.03.1987"},
    "without separators": {"day": "19870314"},
    "as one number": {"day": 14031987},
    "with a time": {"day": "19870314T101500"},
    "with the month as a word": {"day": "14 mars 1987"},
    "with the month as a word of its own": {"year": 1987, "month": "March", "day": 14},
    "with two digits of the year": {"day": "140387"},
    "in JSON": {"body": '{"born": {"year": 1987, "month": 3, "day": 14}}'},
    "in base64": {"body": base64.b64encode(b"in 1987-03-14 and later, or before").decode()},
    "in escapes": {"body": "1987%2D03%2D14"},
    "within SQL": {"sql": "select * from people where born = date '1987-03-14' limit 5"},
}
NOT_SENT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "another day": {"day": "1987-03-15"},
    "another year": {"day": "1988-03-14"},
    "a number of days": {"days": 6281},
}
NO_DATES: dict[str, dict[str, Any]] = {
    "ids": {"ids": [3, 14, 1987]},
    "many ids": {"people": [*range(1, 3_000)]},
    "ids in a text": {"ids": ",".join(map(str, range(1, 3_000)))},
    "an id of six digits": {"id": 140387},
    "ids of six digits": {"people": ["140387", 140388]},
    "an address of the Internet": {"host": "10.3.87.14"},
    "pages": {"page": 3, "limit": 87, "within_days": 14},
    "pages in a text": {"text": "page 3, limit 87, 14 days"},
    "pages of a year": {"year": 2019, "page": 3, "pageSize": 14},
    "pages in SQL": {"sql": "select * from people where team = 12 limit 20 offset 1950"},
    "a version": {"version": "3.14.1"},
    "a time": {"at": "14:03:19"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", SENT)
def test_a_date_counts_as_sent_in_whatever_form_it_was(form: str, way: str) -> None:
    sent = SentDates(SENT[way])
    assert sent.have(form)
    assert sent.may_be_guesses


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", NOT_SENT)
def test_other_dates_do_not_count_as_sent(form: str, way: str) -> None:
    assert not SentDates(NOT_SENT[way]).have(form)


@pytest.mark.parametrize("way", NO_DATES)
def test_ids_and_pages_are_no_dates(way: str) -> None:
    assert not SentDates(NO_DATES[way]).may_be_guesses


@pytest.mark.parametrize("days", [1, 700, -400])
def test_a_few_dates_of_today_are_sent_and_no_guesses(days: int) -> None:
    """An honest program asks for what has changed since yesterday. The control is an older one."""
    date = TODAY - timedelta(days)
    sent = SentDates({"changed_since": date.isoformat()})
    assert sent.have(date.isoformat())
    assert not sent.may_be_guesses
    assert SentDates({"changed_since": (TODAY - timedelta(800)).isoformat()}).may_be_guesses


def test_many_dates_may_be_guesses_whatever_their_age() -> None:
    dates = [str(TODAY - timedelta(days)) for days in range(100)]
    assert not SentDates({"days": dates[:6]}).may_be_guesses
    assert SentDates({"days": dates}).may_be_guesses


def test_the_work_grows_with_the_arguments() -> None:
    def seconds(size: int) -> float:
        row = {"year": 1987, "month": 3, "days": [14], "text": "1 2 3" * 20}
        arguments = {"rows": [row | {"day": at} for at in range(size)]}
        return seconds_of(lambda: SentDates(arguments).may_be_guesses)

    assert seconds(4_000) < 8 * seconds(1_000)
