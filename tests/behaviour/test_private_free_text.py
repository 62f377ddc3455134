"""No free text of sessions that have read private data, where the configuration forbids it: what a program returns,
prints, raises and shows, and every other way to the model. Server, sandbox and host are real."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .product import PLAIN, Host, configuration, in_memory

pytestmark = pytest.mark.slow

SERVER = (
    PLAIN
    + """
from typing import Any
server = Server("clinic")
PATIENT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "state": {"enum": ["ill", "well"]}, "age": {"type": "integer"}},
}

@server.tool(outputSchema=PATIENT, annotations={"readOnlyHint": True})
def patient() -> Any:
    return {"name": "sarcoidosis", "state": "ill", "age": 41}

@server.tool(annotations={"readOnlyHint": True})
def weather() -> str:
    return "sunny"

@server.tool()
def fail() -> str:
    raise ToolError("sarcoidosis not found")

@server.tool()
def report(call: Call) -> str:
    call.report(1, 2, "sarcoidosis")
    call.cancelled.wait(1.5)
    return "done"

server.run()
"""
)
SECRET = "sarcoidosis"
READS = "from servers.clinic import patient\nfound = patient()\n"
WAYS = {
    "value": READS + "found",
    "text": READS + "found['name']",
    "key": READS + "{found['name']: 1}",
    "output": READS + "print(found['name'])\n1",
    "error": READS + "raise ValueError(found['name'])",
    "type of an error": READS + "raise type(found['name'], (Exception,), {})('x')",
    "large number": READS + "int.from_bytes(found['name'].encode())",
    "no JSON": READS + "{found['name']}",
    "error of the server": READS + "from servers.clinic import fail\nfail()",
    "call": READS + "from servers.clinic import fail\nfail(**{found['name']: 1})",
    "shown": READS + "from codemode import show\nshow(found['name'].encode(), name='a.txt')",
    "file": READS + "open('/workspace/' + found['name'], 'w').write('x')\n1",
}


def clinic(folder: Path, *, is_forbidden: bool = True) -> Path:
    script = folder / "clinic.py"
    script.write_text(SERVER)
    labels = {"patient": ["private"], "fail": ["private"], "report": ["private"], "weather": []}
    server = {"command": sys.executable, "args": [str(script)], "labels": labels, "expose": "direct"}
    sections = {"privacy": {"private_free_text": "forbid"}} if is_forbidden else {}
    return configuration(folder, {"clinic": server}, **sections)


async def all_that_is_shown(host: Host) -> dict[str, str]:
    """By way: the whole answer."""
    shown = {name: (await host.run(code)).result.model_dump_json() for name, code in WAYS.items()}
    shown["listed files"] = (await host.call("list_dir", path="/workspace")).result.model_dump_json()
    await host.run(READS + "open('/workspace/a.txt', 'w').write(found['name'])")
    shown["read file"] = (await host.call("read_tool", path="/workspace/a.txt")).result.model_dump_json()
    tools = [it.name for it in (await host.client.list_tools()).tools]
    direct = next(it for it in tools if it.endswith("patient"))
    shown["direct tool"] = (await host.call(direct)).result.model_dump_json()
    return shown


async def test_nothing_that_leaves_for_the_model_has_a_text_of_a_private_server(tmp_path: Path) -> None:
    async with in_memory(clinic(tmp_path)) as host:
        for name, answer in (await all_that_is_shown(host)).items():
            assert SECRET not in answer, name
            assert "private_free_text" in answer, name


async def test_each_of_these_ways_has_it_where_it_is_not_forbidden(tmp_path: Path) -> None:
    """The control; a large number and the type of an error have it in another form, or not at all."""
    async with in_memory(clinic(tmp_path, is_forbidden=False)) as host:
        without = {name for name, answer in (await all_that_is_shown(host)).items() if SECRET not in answer}
    assert without <= {"large number", "file"}


async def test_numbers_and_declared_enumerations_leave(tmp_path: Path) -> None:
    async with in_memory(clinic(tmp_path)) as host:
        answer = await host.run(
            READS + "{'state': found['state'], 'age': found['age'], 'old': found['age'] > 40, 'rate': 1.5}"
        )
        assert answer.value == {"state": "ill", "age": 41, "old": True, "rate": 1.5}


async def test_a_session_that_has_read_nothing_private_gets_texts(tmp_path: Path) -> None:
    async with in_memory(clinic(tmp_path)) as host:
        assert (await host.run("from servers.clinic import weather\nweather()")).value == "sunny"


@pytest.mark.parametrize("is_forbidden", [True, False])
async def test_a_private_server_reports_no_text_while_it_works(tmp_path: Path, is_forbidden: bool) -> None:
    lines: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")

    async with in_memory(clinic(tmp_path, is_forbidden=is_forbidden)) as host:
        code = {"code": "from servers.clinic import report\nreport()\n1"}
        await host.client.call_tool("execute_code", code, progress_callback=note)
    assert any(SECRET in line for line in lines) is not is_forbidden
