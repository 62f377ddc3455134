"""Threat: a program that sees tokens finds out what one stands for by testing guesses: it writes many values, and sees
which of them has the token.

Rule: birth dates, of which all can be tried, stay as the program writes them, so that it sees nothing; what else can be
guessed is in the security guide. The control is a product in which the same guesses are answered.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.product import PLAIN, configuration, in_memory

SERVER = (
    PLAIN
    + """
import datetime, sqlite3
from typing import Any
server = Server("hr")
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE people (id INTEGER, email TEXT, birth_date TEXT)")
database.execute("INSERT INTO people VALUES (3, 'ann.lovelace@example.org', '1987-03-14')")
SAVED: list[dict[str, str]] = []

@server.tool(description="One employee.")
def person() -> dict[str, str]:
    return {"full_name": "Ann Lovelace", "email": "ann.lovelace@example.org", "birth_date": "1987-03-14",
            "phone": "+49 30 901820"}

@server.tool(description="Validate records.")
def check(people: list[Any]) -> list[Any]:
    return people

@server.tool(description="The employees who were born on a day.")
def born(day: str) -> list[str]:
    return ["ann.lovelace@example.org"] * (day == "1987-03-14")

@server.tool(description="A record of a day.")
def make(year: int, month: int, day: int) -> dict[str, str]:
    return {"birth_date": f"{year}-{month:02}-{day:02}"}

@server.tool(description="A day in the form of ISO 8601.")
def parse(day: str) -> dict[str, str]:
    parts = day.split(".")
    return {"birth_date": "-".join(reversed(parts))}

@server.tool(description="The day that is so many days after the first of 1987.")
def after(days: int) -> dict[str, str]:
    return {"birth_date": str(datetime.date(1987, 1, 1) + datetime.timedelta(days))}

@server.tool(description="The days of March 1987.")
def calendar() -> list[str]:
    return [f"1987-03-{day:02}" for day in range(1, 32)]

@server.tool(description="A remark.")
def remark(text: str = "") -> dict[str, str]:
    return {"birth_date": "1987-03-14", "text": "A cake is ordered for 1987-03-14."}

@server.tool(description="Save a birth date.")
def save(day: str) -> None:
    SAVED.append({"birth_date": day})

@server.tool(description="What was saved.")
def saved() -> list[dict[str, str]]:
    return SAVED

@server.tool(description="Rows of a database.")
def query(sql: str) -> list[dict[str, str]]:
    found = database.execute(sql)
    return [dict(zip([column[0] for column in found.description], row)) for row in found]

@server.tool(description="A certificate.")
def certify(day: str) -> str:
    raise ToolError(f"no certificate, date of birth: {day}")

server.run()
"""
)
READ = (
    "from servers.hr import after, born, calendar, certify, check, make, parse, person, query, remark, save, saved\n"
    "import base64, datetime\nit = person()\n"
)
DATES = "dates = [str(datetime.date(1987, 3, day)) for day in range(1, 32)]\n"
PARTS = "substr(birth_date,1,4)+0=1987 AND substr(birth_date,6,2)+0=3 AND substr(birth_date,9,2)+0="
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
UNANSWERED = {
    "dates in the value": DATES + "dates",
    "dates in the output": DATES + "print(*dates, sep='\\n')",
    "dates in another form": DATES + "[date.replace('-', '.') for date in dates]",
    "dates that a protected server answers with": DATES + "[it['birth_date'] for it in check([{'birth_date': date} "
    "for date in dates])].index(it['birth_date'])",
    "numbers that a protected server makes a date of": "days = range(1, 32)\n[make(year=1987, month=3, day=day)"
    "['birth_date'] for day in days].index(it['birth_date'])",
    "dates that a protected server answers with in another form": "days = range(1, 32)\n"
    "[parse(day=f'{day:02}.03.1987')['birth_date'] for day in days].index(it['birth_date'])",
    "parts of dates in a query to a protected server": f"sql = 'SELECT birth_date FROM people WHERE {PARTS}'\n"
    "[''.join(row['birth_date'] for row in query(sql=f'{sql}{day}')) for day in range(1, 32)].index(it['birth_date'])",
}
ANSWERED = {
    "phone numbers": ("[f'+49 30 90{number}' for number in range(1800, 1830)]", "PHONE"),
    "e-mail addresses": ("['ada@example.net', 'ann.lovelace@example.org', 'bea@example.net']", "EMAIL"),
    "names": ("['Bob Miller', 'Ann Lovelace', 'Cy Twombly']", "NAME"),
    "dates that a tool looks up": (
        DATES + "[date for date in dates if it['email'] in born(date)] + [it['email']]",
        "EMAIL",
    ),
    "dates that a query looks up": (
        f"sql = 'SELECT email FROM people WHERE {PARTS}'\n"
        "[f'1987-03-{day}' for day in range(10, 32) if query(sql=f'{sql}{day}')] + [it['email']]",
        "EMAIL",
    ),
    "dates that a tool computes": ("[after(days)['birth_date'] for days in (72, 71)][::-1]", "BIRTH_DATE"),
    "dates that a tool lists": ("calendar()[12:14]", "BIRTH_DATE"),
    "dates that a tool saves, and another one lists": (
        DATES + "[save(date) for date in dates]\n[it['birth_date'] for it in saved()][12:14]",
        "BIRTH_DATE",
    ),
}
NOBODY: dict[str, Any] = {}


def product(folder: Path, **privacy: Any) -> Path:
    (folder / "hr.py").write_text(SERVER)
    servers = {"hr": {"command": sys.executable, "args": [str(folder / "hr.py")]}}
    return configuration(folder, servers, privacy={"servers": {"hr": "tokens"}} | privacy)


@pytest.mark.evasion
@pytest.mark.parametrize(
    "privacy",
    [NOBODY, {"release": {"crm": ["email"]}}, {"programs": "values"}, {"release": {"crm": ["birth_date"]}}],
    ids=["nobody", "others", "values", "released"],
)
@pytest.mark.parametrize("name", [it for it in UNANSWERED if "protected" not in it])
async def test_dates_that_a_program_writes_stay_where_it_can_have_no_birth_date(
    tmp_path: Path, name: str, privacy: dict[str, Any]
) -> None:
    """The control are programs that may have one: they see it, or a tool receives it and may answer with it."""
    async with in_memory(product(tmp_path, **privacy)) as host:
        answer = await host.run(READ + UNANSWERED[name])
    may_have = "programs" in privacy or "birth_date" in str(privacy)
    assert ("<BIRTH_DATE_1>" in answer.text) is may_have
    assert re.search("1987.03.13", answer.text) is not None
    assert (re.search("1987.03.14", answer.text) is None) is may_have


@pytest.mark.evasion
@pytest.mark.parametrize("programs", ["tokens", "values"])
async def test_dates_that_a_program_sends_come_back_without_their_tokens(tmp_path: Path, programs: str) -> None:
    """The control sees the dates. What it has not sent comes with its token."""
    async with in_memory(product(tmp_path, programs=programs, release={"hr": ["*"]})) as host:
        code = (
            "[it['birth_date'], *(it['birth_date'] for it in check([{'birth_date': date} for date in dates[12:15]]))]"
        )
        answer = await host.run(READ + DATES + code)
    if programs == "tokens":
        assert answer.value == ["<BIRTH_DATE_1>"] + ["<BIRTH_DATE>"] * 3
    else:
        assert answer.value == ["<BIRTH_DATE_1>", "<BIRTH_DATE_2>", "<BIRTH_DATE_1>", "<BIRTH_DATE_3>"]


@pytest.mark.evasion
@pytest.mark.parametrize("programs", ["tokens", "values"])
@pytest.mark.parametrize("name", [it for it in UNANSWERED if "protected" in it])
async def test_a_program_does_not_find_the_date_among_those_that_it_sends(
    tmp_path: Path, name: str, programs: str
) -> None:
    """The control sees the dates."""
    async with in_memory(product(tmp_path, programs=programs, release={"hr": ["*"]})) as host:
        guess = await host.run(READ + UNANSWERED[name])
    if programs == "tokens":
        assert "ValueError" in guess.text
    else:
        assert guess.value == 13


@pytest.mark.parametrize("condition", ["id IN (3, 14, 1987)", f"{PARTS}14"])
async def test_birth_dates_of_a_query_by_ids_have_tokens(tmp_path: Path, condition: str) -> None:
    """The control are those of a query that tests them."""
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + f"query(sql='SELECT birth_date FROM people WHERE {condition}')")
    assert answer.value == [{"birth_date": "<BIRTH_DATE_1>" if "id IN" in condition else "<BIRTH_DATE>"}]


IGNORED = {
    "dates": "[remark(date) for date in dates]",
    "all dates before and from a day on": "[remark(' '.join(dates[:13])), remark(' '.join(dates[13:]))]",
    "dates within texts that are encoded": "[remark(base64.b64encode(f'on {date}, and then'.encode()).decode())"
    " for date in dates]",
    "numbers": "[remark(f'{day} 3 1987') for day in range(1, 32)]",
}


@pytest.mark.evasion
@pytest.mark.parametrize("programs", ["tokens", "values"])
@pytest.mark.parametrize("name", IGNORED)
async def test_what_is_sent_to_a_tool_that_answers_with_a_record_changes_nothing_in_it(
    tmp_path: Path, name: str, programs: str
) -> None:
    """Else half of all dates would tell in which half the date is. The control sees the date."""
    async with in_memory(product(tmp_path, programs=programs, release={"hr": ["*"]})) as host:
        code = f"answers = {IGNORED[name]}\n[len({{str(it) for it in answers}}), '1987' in str(answers)]"
        answer = await host.run(READ + DATES + code)
    assert answer.value == [1, programs == "values"]


@pytest.mark.evasion
@pytest.mark.parametrize(
    "encoded",
    [
        "base64.b64encode(f'on {date}, and then'.encode()).decode()",
        'base64.b64encode(f\'{{"birth_date": "{date}"}}\'.encode()).decode()',
        "date.encode().hex()",
        "date.replace('-', '%2D')",
        "''.join(f'&#{ord(it)};' for it in date)",
        "f'1-9-8-7-0-3-{date[8]}-{date[9]}'",
    ],
)
async def test_a_date_that_is_sent_in_an_encoding_and_comes_back_tells_nothing(tmp_path: Path, encoded: str) -> None:
    """Each comes back alike, the date that has a token among them; the control is that date in another call."""
    async with in_memory(product(tmp_path)) as host:
        code = f"sent = [{encoded} for date in dates[9:20]]\n[[check([it]) == [it] for it in sent], remark()['text']]"
        answer = await host.run(READ + DATES + code)
    assert len({*answer.value[0]}) == 1
    assert answer.value[1] == "A cake is ordered for <BIRTH_DATE_1>."


@pytest.mark.evasion
@pytest.mark.parametrize("programs", ["tokens", "values"])
async def test_an_error_quotes_dates_that_a_program_has_sent_without_their_tokens(
    tmp_path: Path, programs: str
) -> None:
    release = {"hr": ["birth_date"]} if programs == "values" else {}
    async with in_memory(product(tmp_path, programs=programs, release=release)) as host:
        answer = await host.run(READ + "certify('1987-03-14')")
    assert f"date of birth: <BIRTH_DATE{'_1' if programs == 'values' else ''}>" in answer.error["message"]


@pytest.mark.evasion
@pytest.mark.parametrize("name", ANSWERED)
async def test_other_guesses_are_answered_as_the_guide_says(tmp_path: Path, name: str) -> None:
    code, label = ANSWERED[name]
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + code)
    assert f"<{label}_1>" in answer.value
    assert len(answer.value) == 2 or "<" not in str(answer.value[0]), "the control: a wrong one stays"


async def test_the_guide_has_the_count() -> None:
    guide = " ".join(GUIDE.read_text().split())
    counted = re.search(r"Of (\d+) programs that test guesses \(.*?\), (\d+) are answered", guide)
    assert counted is not None
    unanswered = len(UNANSWERED) + len(IGNORED)
    assert [int(it) for it in counted.groups()] == [unanswered + len(ANSWERED), len(ANSWERED)]
