"""A birth date that has a token is replaced in whatever protected servers answer, unless the program has sent it."""

from __future__ import annotations

import sys
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

@server.tool(description="One employee.")
def person() -> dict[str, str]:
    return {"full_name": "Ann Lovelace", "birth_date": "1987-03-14"}

@server.tool(description="A note.")
def note() -> str:
    return "Ann came on 1987-03-14, or on 1987/03/14, not on 1987-03-15."

@server.tool(description="Who came on which day.")
def days() -> dict[str, Any]:
    return {"1987-03-14": "Ann", "day": 19870314}

@server.tool(description="What came on a day.")
def on(day: str) -> str:
    return f"On {day} came Ann."

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


async def test_what_a_program_has_sent_stays_as_it_is(tmp_path: Path) -> None:
    """A token would say that the guess is right."""
    async with in_memory(product(tmp_path)) as host:
        answer = await host.run(READ + "[on('1987-03-14'), on('14.03.1987'), on('1987-03-15')]")
    assert answer.value == ["On 1987-03-14 came Ann.", "On 14.03.1987 came Ann.", "On 1987-03-15 came Ann."]


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
