"""A program that forgets to await a call or `asyncio.gather` runs as if it had. What may mean something else stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.executions.kit import checked
from tests.sandbox.lab import Lab, Tools
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.portable]
IMPORT = "import asyncio, json, re\nfrom servers.github import echo, list_issues, meet\n"
ASYNC = "\nawait asyncio.sleep(0)\n"


@pytest.mark.parametrize(("code", "value"), rows(TABLES["plain"]))
async def test_a_call_that_nobody_awaits_gives_the_plain_value(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(IMPORT + code + ASYNC + "found") == value


async def test_a_call_handed_to_a_function_that_is_awaited_is_a_value_there(lab: Lab) -> None:
    code = "async def work(doc): return doc['a'] + 1\nfound = await work(echo(a=1))\nfound"
    assert await lab.value(IMPORT + code) == 2


async def test_a_failed_call_is_caught_by_its_name_without_an_import(lab: Lab) -> None:
    code = "from servers.github import boom\ntry: boom()\nexcept ToolError as error: found = error.tool\nfound"
    assert await lab.value(code) == "boom"


async def test_a_value_may_be_awaited(lab: Lab) -> None:
    code = "async def f(): return await [1]\nx = await 5\ndone = echo(a=1)\nv = await done\n[x, await f(), await v]"
    assert await lab.value(IMPORT + code) == [5, [1], {"a": 1}]


async def test_coroutines_that_were_never_awaited_are_named(lab: Lab) -> None:
    outcome = await lab.run("import asyncio\nasync def f(n): return n\nfor n in range(3): str(f(n))\n1")
    assert "coroutine 'f' was never awaited" in outcome.stderr


@pytest.mark.parametrize("code", ["await asyncio.gather(*map(f, range(3)))", "asyncio.run(f(1))", "f(1)", "0"])
async def test_coroutines_that_ran_are_not_named(lab: Lab, code: str) -> None:
    outcome = await lab.run(f"import asyncio\nasync def f(n): return n\n{code}")
    assert (outcome.error, outcome.hint) == (None, "")


GATHERS_IMPORT = "import asyncio\nfrom servers.github import echo, meet\nasync def own(n): return n\n"


@pytest.mark.parametrize(("code", "value"), rows(TABLES["gathered"]))
async def test_gathered_calls_give_their_values(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(GATHERS_IMPORT + code, Tools()) == value
    assert not (await checked(GATHERS_IMPORT.replace("meet", "boom") + code)).errors


async def test_gathered_calls_are_on_their_way_together(lab: Lab) -> None:
    assert (
        len(await lab.value(f"{GATHERS_IMPORT}asyncio.gather(*[meet(n=n, company=3) for n in range(3)])", Tools())) == 3
    )
