"""A birth date that has a token is replaced in whatever protected servers answer, unless the program has sent it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from .product import PLAIN, configuration, in_memory
from .test_input_requests import asking
from .test_log_messages import Console, logged, tell, wanting
from .test_prompt_completion import PLAN, complete, completing

SERVER = (
    PLAIN
    + """
from typing import Any
server = Server(sys.argv[1])
SAVED: list[str] = []

@server.tool(description="One employee.")
def person(ids: list[int] = [], note: str = "") -> dict[str, str]:
    return {"full_name": "Ann Lovelace", "birth_date": "1987-03-14"}

@server.tool(description="A note.")
def note(since: str = "") -> str:
    return "Ann came on 1987-03-14, or on 1987/03/14, not on 1987-03-15."

@server.tool(description="Who came on which day.")
def days() -> dict[str, Any]:
    return {"1987-03-14": "Ann", "day": 19870314}

@server.tool(description="What came on a day.")
def on(day: str) -> str:
    return f"On {day} came Ann."

@server.tool(description="Save a birth date.")
def save(born: str) -> str:
    SAVED.append(born)
    return "saved"

@server.tool(description="What was saved.")
def saved() -> list[str]:
    return SAVED

@server.tool(description="An error.")
def fails() -> str:
    raise ToolError("nobody came on 1987-03-14, nor on 1987-03-15")

server.run()
"""
)
READ = "from servers.hr import days, fails, note, on, person\nimport servers.open\nit = person()\n"


def product(folder: Path, more: dict[str, Any] | None = None, **privacy: Any) -> Path:
    script = folder / "people.py"
    script.write_text(SERVER)
    servers = {name: {"command": sys.executable, "args": [str(script), name]} for name in ("hr", "open")}
    return configuration(folder, servers | (more or {}), privacy={"servers": {"hr": "tokens"}, **privacy})


@pytest.mark.parametrize("release", [{}, {"crm": ["birth_date"]}], ids=["nobody", "released"])
async def test_prose_keys_and_numbers_have_the_token_before_a_program_sees_them(
    tmp_path: Path, release: dict[str, Any]
) -> None:
    """The control are other dates."""
    async with in_memory(product(tmp_path, release=release)) as host:
        answer = await host.run(READ + "text = note()\n[text, '87-03-14' in text, days()]")
    token = "<BIRTH_DATE_1>"
    text = f"Ann came on {token}, or on {token}, not on 1987-03-15."
    assert answer.value == [text, False, {token: "Ann", "day": token}]


async def test_an_error_has_the_token(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + "fails()")
    assert "nobody came on <BIRTH_DATE_1>, nor on 1987-03-15" in answer.error["message"]


async def test_dates_that_a_program_has_sent_are_withheld_whether_they_are_known_or_not(tmp_path: Path) -> None:
    """A token would say that the guess is right, and so would a date beside withheld ones. What was not sent stays."""
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(
            READ + "[on('1987-03-14'), on('14.03.1987'), on('1987-03-15'), on('1987-03-15, not -16')]"
        )
    shown = "On <BIRTH_DATE> came Ann."
    assert answer.value == [shown, shown, shown, "On <BIRTH_DATE>, not -16 came Ann."]


async def test_dates_that_a_program_has_sent_stay_where_no_birth_date_is_known(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run("from servers.hr import on\non('1987-03-14')")
    assert answer.value == "On 1987-03-14 came Ann."


async def test_a_date_of_today_comes_back_as_it_was_sent_and_known_ones_as_tokens(tmp_path: Path) -> None:
    """What has happened since yesterday is no guess."""
    today = str(datetime.now(UTC).date())
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + f"[on('{today}'), note(since='{today}')[:28]]")
    assert answer.value == [f"On {today} came Ann.", "Ann came on <BIRTH_DATE_1>, "]


@pytest.mark.parametrize("numbers", ["page 3, limit 87, 14 days", " ".join(map(str, range(100)))])
async def test_numbers_in_the_arguments_bring_no_known_date_in_the_clear(tmp_path: Path, numbers: str) -> None:
    """Each of them has the numbers of the date. The control is the date."""
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + f"[note(since={numbers!r}), note(since='1987-03-14')]")
    assert "1987-03-14" not in str(answer.value)
    assert answer.value[0].startswith("Ann came on <BIRTH_DATE_1>, or on <BIRTH_DATE_1>,")
    assert answer.value[1].startswith("Ann came on <BIRTH_DATE>, or on <BIRTH_DATE>, not on 1987-03-15")


async def test_records_that_are_read_by_ids_are_copied_with_their_birth_dates(tmp_path: Path) -> None:
    """The ids have the numbers of the date."""
    async with in_memory(product(tmp_path, release={"open": ["birth_date"]})) as host:
        copied = "servers.open.save(born=servers.hr.person(ids=[*range(1, 101), 1987])['birth_date'])"
        answer = await host.run(f"import servers.hr, servers.open\n{copied}\nservers.open.saved()[0][:4]")
    assert answer.value == "1987"


async def test_a_withheld_birth_date_is_not_passed_on_as_a_text(tmp_path: Path) -> None:
    """A tool that may receive none gets it as it is: it is part of a template."""
    async with in_memory(product(tmp_path, release={"open/save": ["birth_date"]})) as host:
        refused = await host.run(
            "import servers.hr, servers.open\nborn = servers.hr.person(note='1987-03-14')['birth_date']\n"
            "servers.open.save(born='born ' + born)"
        )
        answer = await host.run("import servers.open\n[servers.open.saved(), servers.open.on('<BIRTH_DATE>')]")
    assert "the arguments have <BIRTH_DATE>, which is no privacy token" in refused.error["message"]
    assert refused.text.count("a call without dates, for instance by ids, gets tokens") == 1
    assert answer.value == [[], "On <BIRTH_DATE> came Ann."]


async def test_a_server_that_is_not_protected_answers_with_the_date(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + "servers.open.note()[12:22]")
    assert answer.value == "1987-03-14"


async def test_programs_that_see_values_get_the_text_as_it_is_and_the_model_the_token(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path, programs="values")) as host:
        answer = await host.run(READ + "[note().count('1987-03-14'), note()]")
    assert answer.value[0] == 1
    assert answer.value[1].startswith("Ann came on <BIRTH_DATE_1>, or")


async def test_a_log_message_has_the_token(tmp_path: Path) -> None:
    console = Console()
    path = product(tmp_path, servers={"hr": "tokens", "asking": "tokens"}, more=asking(tmp_path, "legacy"))
    async with in_memory(path, **wanting("auto", "info", console)) as host:
        await host.run(READ)
        await tell(host, logged("error", "nobody came on 1987-03-14, nor on 1987-03-15"))
    assert console.lines == [("error", "asking", "nobody came on <BIRTH_DATE_1>, nor on 1987-03-15")]


async def test_completions_of_a_protected_server_lack_it(tmp_path: Path) -> None:
    """Also where no program can have a birth date, so that it stays in what programs write."""
    completed = completing(tmp_path, {"values": ["Ann, 1987/03/14", "Ann, 1987/03/15"]})
    protected = {"hr": "tokens", "completing": "tokens"}
    async with in_memory(product(tmp_path, completed, servers=protected)) as host:
        before = (await complete(host, PLAN, "city", "Ann")).values
        assert (await host.run(READ + "it['birth_date']")).value == "<BIRTH_DATE_1>"
        after = (await complete(host, PLAN, "city", "Ann")).values
    assert before == ["Ann, 1987/03/14", "Ann, 1987/03/15"], "the control: it has no token yet"
    assert after == ["Ann, 1987/03/15"]
