"""Where a text has dates, and what each of them may mean."""

from __future__ import annotations

import pytest

from codemode_server.privacy.written_dates import dates_in, is_written_date, readings_of
from tests.work import seconds_of

ARE_DATES = [
    "1987-03-14",
    "14.3.1987",
    "3/14/1987",
    "14.3.87",
    "14. März 1987",
    "March 14, 1987",
    "14 de marzo de 1987",
]
ARE_NONE = ["1987-03-32", "13.14.1987", "10.3.87.14", "3, 14, 87", "1.2", "page 3 of 14", "10 rows 1987", "19871314"]


@pytest.mark.parametrize("text", [*ARE_DATES, "1987 03 14", "19870314", "14031987", "\uff12\uff10\uff10\uff10-03-14"])
def test_a_date_is_found_where_it_stands(text: str) -> None:
    assert is_written_date(text)
    found = max(dates_in(f"Ann, born {text}, of Bonn"), key=lambda it: it.end - it.start)
    assert (found.start, found.end) == (len("Ann, born "), len("Ann, born ") + len(text))


@pytest.mark.parametrize("text", ARE_NONE)
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert [*dates_in(text)] == []


def test_a_date_may_mean_several_days() -> None:
    assert readings_of("02.03.1980") == {(1980, 2, 3), (1980, 3, 2)}
    assert readings_of("14.03.1987 10:15") == {(1987, 3, 14)}
    assert readings_of("on 14.03.1987") == frozenset()


@pytest.mark.parametrize("text", ["1987-03-14 ", "1 ", "12345678", "1987 ", "word 12 ", "2000", "1.2.3-4/5 "])
def test_the_work_grows_with_the_text(text: str) -> None:
    def seconds(count: int) -> float:
        return seconds_of(lambda: [*dates_in(text * count)])

    assert seconds(16_000) < 8 * seconds(4_000)
