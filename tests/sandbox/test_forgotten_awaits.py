"""In async code a call gives the plain value, unless the program plainly awaits it itself.

Models mix both styles: one `await` at top level makes all of a program async code, and `log = git_log()` beside it must
still be a text that `re.findall` takes.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.lab import Lab
from tests.tables import rows, tables

pytestmark = pytest.mark.asyncio(loop_scope="session")
TABLES = tables(__file__)
IMPORT = "import asyncio, json, re\nfrom servers.github import echo, list_issues, meet\n"
ASYNC = "\nawait asyncio.sleep(0)\n"


@pytest.mark.portable
@pytest.mark.parametrize(("code", "value"), rows(TABLES["plain"]))
async def test_a_call_that_nobody_awaits_gives_the_plain_value(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(IMPORT + code + ASYNC + "found") == value


@pytest.mark.portable
async def test_a_call_handed_to_a_function_that_is_awaited_is_a_value_there(lab: Lab) -> None:
    code = "async def work(doc): return doc['a'] + 1\nfound = await work(echo(a=1))\nfound"
    assert await lab.value(IMPORT + code) == 2


@pytest.mark.portable
async def test_a_failed_call_is_caught_by_its_name_without_an_import(lab: Lab) -> None:
    code = "from servers.github import boom\ntry: boom()\nexcept ToolError as error: found = error.tool\nfound"
    assert await lab.value(code) == "boom"


@pytest.mark.portable
async def test_a_program_that_is_indented_as_a_whole_runs(lab: Lab) -> None:
    assert await lab.value("    x = 1\n    if x:\n        x += 1\n    x\n") == 2


@pytest.mark.portable
@pytest.mark.parametrize("code", rows(TABLES["never_awaited"]))
async def test_coroutines_that_were_never_awaited_are_named_with_their_line(lab: Lab, code: str) -> None:
    outcome = await lab.run(f"import asyncio\nasync def f(n): return n\n{code}")
    assert "never awaited, so nothing of them has run: 3 of f (line 2)" in outcome.hint


@pytest.mark.portable
@pytest.mark.parametrize("code", ["await asyncio.gather(*map(f, range(3)))", "asyncio.run(f(1))", "f(1)", "0"])
async def test_coroutines_that_ran_are_not_named(lab: Lab, code: str) -> None:
    outcome = await lab.run(f"import asyncio\nasync def f(n): return n\n{code}")
    assert (outcome.error, outcome.hint) == (None, "")
