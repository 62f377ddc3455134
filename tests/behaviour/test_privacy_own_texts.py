"""A server that calls words names changes nothing of what the model reads: tokens, and words of others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from .product import PLAIN, configuration, in_memory

pytestmark = pytest.mark.slow

SERVER = (
    PLAIN
    + """
from typing import Any
server = Server("people")

@server.tool(description="Records as JSON.")
def records(which: str) -> str:
    return which

server.run()
"""
)
ANN = {"NAME": "Ann Kowalczyk", "EMAIL": "ann.kowalczyk@example.org"}


def people(folder: Path) -> Path:
    script = folder / "people.py"
    script.write_text(SERVER)
    command = {"command": sys.executable, "args": [str(script)]}
    servers = {"people": command, "tracker": command}
    return configuration(folder, servers, privacy={"servers": {"people": "tokens"}})


def reading(records: Any, server: str = "people") -> str:
    return f"from servers import {server}\nprint('to <EMAIL_1>')\n{server}.records({json.dumps(json.dumps(records))})"


@pytest.mark.parametrize(
    "before", [[], [{"full_name": "EMAIL"}, {"full_name": "EMAIL_1x"}, {"NAME": "NAME", "EMAIL": "EMAIL"}]]
)
async def test_tokens_stay_whatever_a_record_is_called(tmp_path: Path, before: list[dict[str, str]]) -> None:
    async with in_memory(people(tmp_path)) as host:
        await host.run(reading([ANN]))
        await host.run(reading(before))
        answer = await host.run(reading([ANN]))
        assert answer.value == [{"NAME": "<NAME_1>", "EMAIL": "<EMAIL_1>"}]
        assert "to <EMAIL_1>\n" in answer.text


async def test_words_of_other_servers_stay_and_names_do_not(tmp_path: Path) -> None:
    words = ("OPEN", "Monday", "Amount Due", "IN_PROGRESS", "succeeded", "will")
    issue = {
        "status": "OPEN",
        "state": "IN_PROGRESS",
        "ok": "succeeded",
        "text": "The Amount Due on Monday will be sent",
    }
    said = {"by": "Grace Field", "text": "Mark Young and Ms Rain have left"}
    async with in_memory(people(tmp_path)) as host:
        named = [*words, "Grace Field", "Mark Young", "Rain"]
        await host.run(reading([{"full_name": it, "email": "a@example.org"} for it in named]))
        tokens = [f"<NAME_{number}>" for number in range(len(words) + 1, len(named) + 1)]
        answer = await host.run(reading([issue, said], "tracker"))
        assert answer.value == [issue, {"by": tokens[0], "text": f"{tokens[1]} and Ms {tokens[2]} have left"}]
