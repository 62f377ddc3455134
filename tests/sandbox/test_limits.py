"""Every limit of a program: it ends the program by name, lets what is under it through, and harms no later program."""

# ruff: noqa: ASYNC240 - the files are small

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

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


@pytest.mark.portable
@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("x = 1\necho(x=1)\ny = 2\necho(x=2)", {"calls": 1}),
        ("x = 1\n\n\nprint('x' * 60_000)", {"output_bytes": 10_000}),
    ],
)
async def test_a_limit_that_the_host_counts_names_the_line_that_passed_it(
    lab: Lab, code: str, limit: dict[str, Any]
) -> None:
    outcome = await lab.run(ECHO + code, **limit, call_bytes=10_000)
    assert outcome.error is not None
    assert (outcome.error.setting, outcome.error.line) == (f"limits.{next(iter(limit))}", 5)


@pytest.mark.parametrize("size", [20_000, 30_000_000])
async def test_arguments_are_limited_in_size(lab: Lab, size: int) -> None:
    """Also where the frame would be too long for any guest to send."""
    tools = Tools()
    assert await lab.limit(ECHO + f"echo(x='a' * {size})", tools, call_bytes=10_000) == "limits.call_bytes"
    assert tools.calls == []


@pytest.mark.portable
async def test_other_forms_of_arguments_are_left_out_where_they_do_not_fit(lab: Lab) -> None:
    code = ECHO + "import datetime\nlen(echo(x=[datetime.date(2026, 1, 2)] * 30_000)['x'])"
    assert await lab.value(code, call_bytes=1_000_000, value_bytes=1_000_000) == 30_000


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
time.sleep({15 * SLOWNESS})
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
