"""A program that gathers calls and awaits nothing runs as if `await` stood before `asyncio.gather`; it failed, since
calls give plain values in a program without an `await`. What may mean something else stays as it is."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from codemode_server.sandbox.guest.source import await_gathers
from tests.executions.kit import checked
from tests.sandbox.lab import Lab, Tools
from tests.tables import rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)
IMPORT = "import asyncio\nfrom servers.github import echo, meet\nasync def own(n): return n\n"


@pytest.mark.portable
@pytest.mark.parametrize(("code", "value"), rows(TABLES["gathered"]))
async def test_gathered_calls_give_their_values(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(IMPORT + code, Tools()) == value
    assert not (await checked(IMPORT.replace("meet", "boom") + code)).errors


@pytest.mark.portable
async def test_gathered_calls_are_on_their_way_together(lab: Lab) -> None:
    assert len(await lab.value(f"{IMPORT}asyncio.gather(*[meet(n=n, company=3) for n in range(3)])", Tools())) == 3


@pytest.mark.parametrize("code", rows(TABLES["unchanged"]))
async def test_nothing_else_is_changed(code: str) -> None:
    tree = ast.parse(code)
    await_gathers(tree)
    assert ast.dump(tree) == ast.dump(ast.parse(code))
