"""Every limit of a program: it ends the program by name, lets what is under it through, and harms no later program."""

# ruff: noqa: ASYNC240 - the files are small

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.sandbox.contract import Ending
from tests.sandbox.lab import SLOWNESS, Lab, Tools
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = pytest.mark.asyncio(loop_scope="session")
ECHO = "from servers.github import echo\n"


@pytest.mark.parametrize(("code", "limits"), rows(TABLES["ended"]))
async def test_a_limit_ends_the_program_by_its_name(lab: Lab, code: str, limits: dict[str, Any]) -> None:
    """`value_bytes` only shortens what is shown; past it, memory bounds a value as it bounds a call."""
    name = next(iter(limits))
    if name == "wall_seconds":
        limits = {name: limits[name] * SLOWNESS}
    assert await lab.limit(code, **limits) == f"limits.{name}"


async def test_time_of_calls_does_not_count_as_the_programs(lab: Lab) -> None:
    """The call outlasts the program's own budget many times."""

    class Slow(Tools):
        async def call(self, server: str, tool: str, arguments: dict[str, object], *, raw: bool = False, **_: object):  # type: ignore[no-untyped-def]
            await anyio.sleep(0.8 * SLOWNESS)
            return await super().call(server, tool, arguments, raw=raw)

    outcome = await lab.run(ECHO + "echo(a=1)", Slow(), wall_seconds=0.6 * SLOWNESS)
    assert outcome.ending is Ending.RETURNED, outcome.error
    assert outcome.upstream_ms >= 790 * SLOWNESS
    assert outcome.program_ms < 600 * SLOWNESS


async def test_printing_is_limited_and_what_fitted_is_kept(lab: Lab) -> None:
    """Past `output_bytes`, which only shortens what is shown, memory bounds it as it bounds a call."""
    outcome = await lab.run("while True: print('x' * 99)", output_bytes=1_024, call_bytes=10_000)
    assert outcome.ending is Ending.LIMITED
    assert outcome.error is not None
    assert outcome.error.setting == "limits.output_bytes"
    assert outcome.stdout == ("x" * 99 + "\n") * 100


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    try: echo()\n    except BaseException: pass",
        "echo.map([{'n': n} for n in range(50)])",
        "import asyncio\nawait asyncio.gather(*[echo(n=n) for n in range(50)], return_exceptions=True)",
    ],
)
async def test_no_program_gets_past_the_limit_on_calls(lab: Lab, code: str) -> None:
    """Those in flight are answered before it ends."""
    tools = Tools()
    assert await lab.limit(ECHO + code, tools, calls=5, calls_in_flight=4) == "limits.calls"
    assert len(tools.calls) == 5


@pytest.mark.parametrize("size", [20_000, 30_000_000])
async def test_arguments_are_limited_in_size(lab: Lab, size: int) -> None:
    """Also where the frame would be too long for any guest to send."""
    tools = Tools()
    assert await lab.limit(ECHO + f"echo(x='a' * {size})", tools, call_bytes=10_000) == "limits.call_bytes"
    assert tools.calls == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open and removed is known on Linux only")
async def test_files_that_are_removed_while_open_count_as_well(lab: Lab) -> None:
    """They take room on the host until they are closed, and no folder shows them."""
    code = f"""
import os, time
kept = []
for number in range(16):
    kept.append(open("/workspace/file", "wb"))
    os.remove("/workspace/file")
    kept[-1].write(bytes(2**20))
    kept[-1].flush()
time.sleep({3 * SLOWNESS})
"""
    assert await lab.limit(code, workspace_mb=4) == "limits.workspace_mb"


async def test_a_workspace_that_is_too_full_can_still_be_tidied_up(lab: Lab, workspace: Path) -> None:
    (workspace / "old").write_bytes(bytes(3 * 2**20))
    assert await lab.value("import os\nos.remove('/workspace/old')\n1", workspace_mb=1) == 1
    assert list(workspace.iterdir()) == []


async def test_a_cancelled_program_is_gone_and_the_next_one_runs(lab: Lab) -> None:
    with anyio.move_on_after(0.3 * SLOWNESS) as scope:
        await lab.run("while True: pass")
    assert scope.cancelled_caught
    assert await lab.value("6 * 7") == 42


async def test_programs_run_side_by_side(lab: Lab) -> None:
    """Each is in a call that waits for the other's."""
    tools = Tools()
    values: list[object] = []

    async def one(n: int) -> None:
        values.append(await lab.value(f"from servers.github import meet\nmeet(n={n}, company=3)['n']", tools))

    async with anyio.create_task_group() as tasks:
        for n in range(3):
            tasks.start_soon(one, n)
    assert sorted(map(str, values)) == ["0", "1", "2"]
