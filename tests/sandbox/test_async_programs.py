"""Asynchronous programs as people write them: each gives what it gives with any other client of the tools."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tests.sandbox.lab import Lab, Tools
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = pytest.mark.asyncio(loop_scope="session")
HEAD = (
    "import asyncio, contextlib, dataclasses, functools, inspect, json\n"
    "from servers.github import boom, echo, forever, meet\n"
)


async def test_the_idioms_of_asynchronous_programs(lab: Lab) -> None:
    """All in one program, so that a microVM boots once."""
    idioms: dict[str, Any] = TABLES["inside a function"]
    functions = [
        f"async def idiom_{number}():\n{textwrap.indent(code, '    ')}\n"
        for number, (code, _) in enumerate(idioms.values())
    ]
    made = await lab.value(
        f"{HEAD}{''.join(functions)}[await globals()[f'idiom_{{n}}']() for n in range({len(idioms)})]"
    )
    assert dict(zip(idioms, made, strict=True)) == {name: value for name, (_, value) in idioms.items()}


@pytest.mark.portable
@pytest.mark.parametrize(("code", "value"), rows(TABLES["in plain code"]))
async def test_calls_that_plain_code_hands_to_asyncio(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(HEAD + code) == value


@pytest.mark.portable
@pytest.mark.parametrize(("code", "sent", "unsent"), rows(TABLES["never sent"]))
async def test_a_call_that_its_function_does_not_await_is_never_sent(
    lab: Lab, code: str, sent: list[str], unsent: str
) -> None:
    tools = Tools()
    outcome = await lab.run(HEAD + code, tools)
    assert [tool for _, tool, _ in tools.calls] == sent
    assert outcome.stderr == f"never awaited, so never sent: {unsent} in all)\n"


@pytest.mark.portable
async def test_calls_that_nobody_awaits_are_made_once_and_in_order(lab: Lab) -> None:
    tools = Tools()
    code = "echo(n=1)\n    x = echo(n=2)\n    d = {'k': echo(n=3)}\n    l = [echo(n=4)]"
    await lab.value(f"{HEAD}async def main():\n    {code}\nawait main()", tools)
    assert [sent["n"] for _, _, sent in tools.calls] == [1, 2, 3, 4]
