"""A server that calls the words of privacy tokens names changes nothing of what the model reads."""

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
    servers = {"people": {"command": sys.executable, "args": [str(script)]}}
    return configuration(folder, servers, privacy={"servers": {"people": "tokens"}})


def reading(records: Any) -> str:
    return f"from servers import people\nprint('to <EMAIL_1>')\npeople.records({json.dumps(json.dumps(records))})"


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
