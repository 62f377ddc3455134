"""A value with a privacy token is sent as the text or the number that the tool takes, whichever a result had first."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from .product import PLAIN, configuration, in_memory

SERVER = (
    PLAIN
    + """
import json

server = Server("crm")

@server.tool(description="A row of a sheet.")
def row() -> dict[str, int]:
    return {"phone": 4930901820}

@server.tool(description="A contact.")
def contact() -> dict[str, str]:
    return {"phone": "4930901820"}

@server.tool(description="Call.")
def call(phone: str) -> str:
    open(sys.argv[1], "a").write(json.dumps(phone) + "\\n")
    return "ok"

@server.tool(description="Add a number.")
def add(phone: int) -> str:
    open(sys.argv[1], "a").write(json.dumps(phone) + "\\n")
    return "ok"

server.run()
"""
)


@pytest.mark.parametrize("first", ["row", "contact"])
async def test_tools_get_a_text_or_a_number_as_they_take_it(tmp_path: Path, first: str) -> None:
    (tmp_path / "crm.py").write_text(SERVER)
    crm = {"command": sys.executable, "args": [str(tmp_path / "crm.py"), str(tmp_path / "sent")]}
    privacy = {"servers": {"crm": "tokens"}, "release": {"crm": ["phone"]}}
    code = f"from servers.crm import {first}, call, add\nphone = {first}()['phone']\n[phone, call(phone), add(phone)]"
    async with in_memory(configuration(tmp_path, {"crm": crm}, privacy=privacy)) as host:
        answer = await host.run(code)
    assert answer.value == ["<PHONE_1>", "ok", "ok"], answer.text
    assert [json.loads(line) for line in (tmp_path / "sent").read_text().splitlines()] == ["4930901820", 4930901820]
