"""A program that gathers calls and awaits nothing runs as if `await` stood before `asyncio.gather`; it failed, since
calls give plain values in a program without an `await`. What may mean something else stays as it is."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from codemode_server.sandbox.guest.source import await_gathers
from tests.executions.kit import checked
from tests.sandbox.lab import Lab, Tools

pytestmark = pytest.mark.asyncio(loop_scope="session")
IMPORT = "import asyncio\nfrom servers.github import echo, meet\nasync def own(n): return n\n"
BOTH = [{"a": 1}, {"a": 2}]


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("asyncio.gather(echo(a=1), echo(a=2))", BOTH),
        ("found = asyncio.gather(*[echo(a=n) for n in (1, 2)])\nfound", BOTH),
        ("calls = []\nfor n in (1, 2): calls.append(echo(a=n))\none, two = asyncio.gather(*calls)\ntwo['a']", 2),
        ("from asyncio import gather\nif True:\n    rows = gather(echo(a=1), echo(a=2))\nrows", BOTH),
        ("for row in asyncio.gather(echo(a=1), echo(a=2)): last = row\nlast", {"a": 2}),
        ("asyncio.run(asyncio.gather(echo(a=1), echo(a=2)))", BOTH),
        ("x = echo(a=3)\n[type(x).__name__, *asyncio.gather(own(1), own(x['a']))]", ["dict", 1, 3]),
        ("return asyncio.gather(own(1), own(2))", [1, 2]),
    ],
)
async def test_gathered_calls_give_their_values(lab: Lab, code: str, value: Any) -> None:
    assert await lab.value(IMPORT + code, Tools()) == value
    assert not (await checked(IMPORT.replace("meet", "boom") + code)).errors


@pytest.mark.portable
async def test_gathered_calls_are_on_their_way_together(lab: Lab) -> None:
    assert len(await lab.value(f"{IMPORT}asyncio.gather(*[meet(n=n, company=3) for n in range(3)])", Tools())) == 3


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio\nawait asyncio.sleep(0)\nlater = asyncio.gather(own(1))",
        "import asyncio\nasync def main():\n    asyncio.gather(own(1))\nasyncio.run(main())",
        "import asyncio\ndef main():\n    return asyncio.gather(own(1))",
        "import asyncio\nlater = lambda: asyncio.gather(own(1))",
        "import asyncio\nloop = asyncio.get_event_loop()\nloop.run_until_complete(asyncio.gather(own(1)))",
        "import asyncio\ntask = asyncio.create_task(asyncio.gather(own(1)))",
        "from trio import gather\ngather(own(1))",
        "import asyncio\nasyncio.run(asyncio.wait_for(own(1), 3))",
    ],
)
async def test_nothing_else_is_changed(code: str) -> None:
    tree = ast.parse(code)
    await_gathers(tree)
    assert ast.dump(tree) == ast.dump(ast.parse(code))
