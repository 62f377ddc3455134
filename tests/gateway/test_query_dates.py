"""Which queries may test guesses of birth dates, and which are ordinary."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from codemode_server.gateway.sent_dates import SentDates
from tests.work import seconds_of

WITH_THE_DATE = {
    "parts of a column": "SELECT name FROM people WHERE substr(born,1,4)+0=1987 AND substr(born,6,2)+0=3 AND"
    " substr(born,9,2)+0=14",
    "pieces": "SELECT born FROM people WHERE born = '1987-' || '03-14'",
    "columns of their own": "SELECT * FROM people WHERE year=1987 AND month=3 AND day=14",
    "columns whose names say nothing": "SELECT * FROM people WHERE a=1987 AND b=3 AND c=14",
    "a function that makes a date": "SELECT born FROM people WHERE born = make_date(1987, 3, 14)",
    "wildcards": "SELECT born FROM people WHERE born LIKE '1987_03_14'",
    "numbers in the answer": "SELECT printf('%d-%02d-%02d', 1987, 3, 14) AS born",
    "a column that the query calls id": "SELECT * FROM (SELECT born, substr(born,1,4) AS id, substr(born,6,2)"
    " AS page_id, substr(born,9,2) AS id2 FROM people) WHERE id = 1987 AND page_id = 03 AND id2 = 14",
    "names of a common table expression": "WITH t(born, id, page, limits) AS (SELECT * FROM parts) SELECT born FROM t"
    " WHERE id = 1987 AND page = 3 AND limits = 14",
}
TESTING = {
    "years": "SELECT name FROM people WHERE strftime('%Y', born) = '1987'",
    "a month": "SELECT name, born FROM people WHERE substr(born, 6, 2) = '03'",
    "a day": "SELECT name FROM people p WHERE CAST(substr(p.born, 9, 2) AS INTEGER) = 14",
    "a year of two digits": "SELECT name FROM people WHERE substr(born, 3, 2) + 0 = 87",
    "a range": "SELECT name FROM people WHERE date_of_birth BETWEEN '1987' AND '1988'",
    "half of all": "SELECT name FROM people WHERE born < '1987'",
    "half of all, the other way round": "SELECT name FROM people WHERE '1987' > \"born\"",
    "a beginning": "SELECT name FROM people WHERE born LIKE '1987-%'",
    "an end": "SELECT name FROM people WHERE birthday LIKE '%-14'",
    "a pattern": "SELECT name FROM people WHERE regexp_like(dob, '^1987-0[1-6]')",
    "a place": "SELECT name, instr(born, '87') FROM people",
    "a case": "SELECT name, CASE substr(born, 6, 2) WHEN '03' THEN 1 END FROM people",
    "without its beginning": "born >= '1987'",
}
ORDINARY = {
    "ids": "SELECT name, born FROM people WHERE id IN (3, 14, 1987)",
    "one id": 'SELECT name, born FROM people WHERE id = 1987 AND team_id = 3 AND "page_id" = 14',
    "ids of a joined table": "SELECT p.name, p.born FROM people p JOIN teams t ON t.id = p.team"
    " WHERE p.id BETWEEN 3 AND 1987",
    "pages": "SELECT name, born FROM people ORDER BY born LIMIT 20 OFFSET 1950",
    "pages with a small number": "SELECT name, born FROM people WHERE team = 12 LIMIT 100 OFFSET 3000",
    "an amount": "SELECT name, born FROM people WHERE amount > 1987",
    "an amount and a level": "SELECT name, born FROM people WHERE amount > 1987 AND level = 3",
    "a table of a year": "SELECT name, born FROM people_2019 WHERE team = 3 AND level = 14",
    "numbers without a year": "SELECT name, born FROM people WHERE team = 12 AND level IN (3, 14)",
    "no numbers": "SELECT name, born FROM people WHERE born IS NOT NULL ORDER BY born",
    "no date": "UPDATE machines SET speed = 1987 WHERE id = 5",
    "a column beside a condition": "SELECT born, id FROM people WHERE id = 14",
    "a part in the answer": "SELECT name, substr(born, 1, 4) AS year FROM people WHERE id = 14",
    "ids and a page": "SELECT name, born FROM people WHERE id IN (3, 14, 1987) LIMIT 5",
}
DATE = "1987-03-14"


@pytest.mark.parametrize("name", WITH_THE_DATE)
def test_numbers_of_a_query_may_be_a_date(name: str) -> None:
    """The control is another date: it is none of them."""
    sent = SentDates({"sql": WITH_THE_DATE[name]})
    assert sent.may_be_guesses
    assert sent.have(DATE)
    assert not sent.have("1986-03-14")


@pytest.mark.parametrize("name", TESTING)
@pytest.mark.parametrize("key", ["sql", "filter"])
def test_a_query_that_compares_a_birth_date_or_a_part_of_it_tests_it(name: str, key: str) -> None:
    assert SentDates({key: TESTING[name]}).may_be_guesses


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_query_tests_nothing(name: str) -> None:
    assert not SentDates({"sql": ORDINARY[name]}).may_be_guesses


def test_numbers_in_prose_are_no_guess() -> None:
    """The control is the same in an argument for queries."""
    text = "Please order 1987 lamps, 3 desks and 14 chairs"
    assert not SentDates({"text": text}).may_be_guesses
    assert SentDates({"query": text}).may_be_guesses


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT replace(born, '-', '') AS id, born FROM people WHERE id IN (14, 3, 1987)",
        "SELECT born id FROM people WHERE id IN (14, 3, 1987)",
        "SELECT born/**/id FROM people WHERE id IN (14, 3, 1987)",
        'SELECT "born"id FROM people WHERE id IN (14, 3, 1987)',
        "SELECT born FROM people, to_char(born, 'DD') t(a, id) WHERE id IN (14, 3, 1987)",
        "SELECT born FROM people WHERE id = 19870314",
        "SELECT born FROM people WHERE id = '1987-03-14'",
        "people | extend a = 1, id = born | where id in (14, 3, 1987)",
    ],
)
def test_what_a_query_calls_an_id_may_be_a_date(sql: str) -> None:
    """So may one number with the digits of a date. The control is a column of this name."""
    assert SentDates({"sql": sql}).may_be_guesses
    assert not SentDates({"sql": "SELECT born FROM people WHERE id IN (14, 3, 1987)"}).may_be_guesses


def test_a_query_in_json_counts_as_one() -> None:
    assert SentDates({"body": '{"sql": "SELECT * FROM people WHERE a=1987 AND b=3 AND c=14"}'}).may_be_guesses


def test_parts_of_a_day_of_this_year_are_no_guess() -> None:
    """The control is a year that people are born in."""
    sql = "SELECT * FROM people WHERE hired_year = {} AND hired_month = 1 AND hired_day = 2"
    assert not SentDates({"sql": sql.format(datetime.now(UTC).year)}).may_be_guesses
    assert SentDates({"sql": sql.format(1987)}).may_be_guesses


def test_a_query_too_long_to_read_may_test_birth_dates() -> None:
    """The control is as long, and no query."""
    assert SentDates({"sql": "SELECT name FROM people WHERE " + "x OR " * 20_000}).may_be_guesses
    assert not SentDates({"text": "words or " * 20_000}).may_be_guesses


def _rows(first_year: int, count: int) -> dict[str, Any]:
    row = {f"a{at}": first_year + at for at in range(120)} | {f"b{at}": at for at in range(1, 32)}
    return {"rows": [row] * count}


def test_combinations_are_not_listed_without_bound() -> None:
    """The control has numbers that are no years."""
    assert seconds_of(lambda: SentDates(_rows(1900, 100)).may_be_guesses) < 5 * seconds_of(
        lambda: SentDates(_rows(19_000, 100)).may_be_guesses
    )


def test_what_is_too_much_to_list_counts_as_sent() -> None:
    """The control is a year that was not sent."""
    sent = SentDates(_rows(1900, 2))
    assert sent.may_be_guesses
    assert sent.have(DATE)
    assert not sent.have("2050-03-14")


@pytest.mark.parametrize(
    "piece", ["born ", "born,1 ", "a.", "id=1987,", "f(", "'1", "1=", "a(b'", ") id ", "id in (1,"]
)
def test_the_work_on_a_query_grows_with_its_length(piece: str) -> None:
    def seconds(count: int) -> float:
        return seconds_of(lambda: SentDates({"sql": "SELECT born, " + piece * count}).may_be_guesses)

    size = 20_000 // len(piece)
    assert seconds(size * 2) < 8 * seconds(size // 2)
