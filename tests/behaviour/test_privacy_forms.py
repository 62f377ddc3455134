"""Forms of results that real servers have: what a program sees has tokens, and what it sends on arrives as values."""

from __future__ import annotations

import sys
from pathlib import Path

from .product import PLAIN, configuration, in_memory

SERVER = (
    PLAIN
    + """
from typing import Any
server = Server(sys.argv[1])
RECEIVED: list[str] = []

@server.tool(description="One contact.")
def contact() -> dict[str, Any]:
    date = {"year": 1987, "month": 3, "day": 14}
    return {"names": [{"displayNameLastFirst": "O'Leary, Annabel"}], "birthdays": [{"date": date}]}

@server.tool(description="One mail.")
def mail() -> str:
    return "From: Bert Smithson <bert@example.org>\\nCc: Site Support <help@example.org>\\n\\nThe lamp"

@server.tool(description="Send a text.")
def send(text: str) -> str:
    RECEIVED.append(text)
    return "sent"

@server.tool(description="What was sent.")
def received() -> list[str]:
    return RECEIVED

server.run()
"""
)
PROGRAM = """
from servers.crm import contact, mail
from servers.post import send
one = contact()
name, born = one["names"][0]["displayNameLastFirst"], one["birthdays"][0]["date"]
send(f"{name}, {born}")
[name, born, mail()]
"""


def product(folder: Path, is_on: bool) -> Path:
    script = folder / "forms.py"
    script.write_text(SERVER)
    servers = {name: {"command": sys.executable, "args": [str(script), name]} for name in ("crm", "post")}
    settings = {"servers": {"crm": "tokens"}, "release": {"post": ["name", "birth_date"]}}
    return configuration(folder, servers, **({"privacy": settings} if is_on else {}))


async def test_names_and_a_date_in_parts_have_tokens_and_are_sent_as_values(tmp_path: Path) -> None:
    async with in_memory(product(tmp_path, is_on=True)) as host:
        answer = await host.run(PROGRAM)
        sent = await host.run(
            'from servers.post import received\n[it == "O\'Leary, Annabel, 1987-03-14" for it in received()]'
        )
    name, born, mail = answer.value
    assert (name, born) == ("<NAME_1>", "<BIRTH_DATE_1>")
    assert mail == "From: <NAME_2> <<EMAIL_1>>\nCc: Site Support <<EMAIL_2>>\n\nThe lamp"
    assert sent.value == [True]


async def test_without_protection_a_program_sees_the_values(tmp_path: Path) -> None:
    """The control."""
    async with in_memory(product(tmp_path, is_on=False)) as host:
        answer = await host.run(PROGRAM.replace("send(", "str("))
    assert answer.value[:2] == ["O'Leary, Annabel", {"year": 1987, "month": 3, "day": 14}]
    assert "Bert Smithson <bert@example.org>" in answer.value[2]
