"""Each limit of upstream.yaml, reached by a program through the whole product: it ends with an error that names the
limit, and the next program runs as if nothing had been."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from .product import configuration, in_memory, office

pytestmark = pytest.mark.slow

MANY = "from servers.github import list_issues\nfor n in range(6): list_issues(repo=str(n))"


@pytest.mark.parametrize(
    ("limit", "control", "code"),
    [
        ({"wall_seconds": 2}, "import time; time.sleep(0.1)", "while True: pass"),
        ({"memory_mb": 96}, "len(bytearray(1_000_000))", "x = []\nwhile True: x.append(bytearray(1_000_000))"),
        ({"output_bytes": 5_000, "call_bytes": 5_000}, "print('x' * 4_000)", "while True: print('x' * 100)"),
        ({"calls": 5}, MANY.replace("6", "5"), MANY),
        ({"value_bytes": 5_000, "call_bytes": 5_000}, "'x' * 4_000", "'x' * 6_000"),
        (
            {"workspace_mb": 2},
            "open('/workspace/a', 'wb').write(bytes(1_000_000))",
            "open('/workspace/b', 'wb').write(bytes(4_000_000))\nimport time; time.sleep(25)",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_program_past_a_limit_ends_with_an_error_that_names_it(
    tmp_path: Path, limit: dict[str, Any], control: str, code: str
) -> None:
    servers = office(tmp_path, "github") if "servers" in code else {}
    async with in_memory(configuration(tmp_path, servers, limits=limit)) as host:
        assert (await host.run(control)).content["status"] == "succeeded", "control: below the limit nothing ends"
        answer = await host.run(code)
        name = next(iter(limit))
        assert answer.content["status"] == "limit_exceeded", answer.text
        assert answer.error["setting"] == f"limits.{name}"
        assert answer.text.count(f"the user can raise limits.{name}") == 1
        assert "upstream.yaml" not in answer.text
        assert (await host.run("1 + 1")).value == 2


async def test_calls_in_flight_at_the_limit_are_answered_for_the_next_program(tmp_path: Path) -> None:
    code = "from servers.github import list_issues\nlist_issues.map([{'repo': str(n)} for n in range(9)])"
    async with in_memory(configuration(tmp_path, office(tmp_path, "github"), limits={"calls": 5})) as host:
        answer = await host.run(code)
        assert answer.error["setting"] == "limits.calls"
        assert "resume=" not in answer.text, "the recorded calls count, so it would meet the same limit"
        assert [call["status"] for call in answer.content["calls"]] == ["succeeded"] * 5
        assert len(host.reached("list_issues")) == 5
        found = f'results["{answer.content["execution_id"]}/calls/N"]'
        assert found in answer.text
        each = ", ".join(f"len({found.replace('N', str(number))})" for number in range(1, 6))
        assert (await host.run(f"from codemode import results\n[{each}]")).value == [5] * 5


async def test_time_spent_waiting_for_upstreams_counts_apart(tmp_path: Path) -> None:
    """A second of waiting does not touch half a second of the program's own time; it has a limit of its own."""
    servers = office(tmp_path, "slow")
    wait = "from servers.slow import wait\nwait(seconds={seconds})"
    limits = {"wall_seconds": 0.6, "upstream_seconds": 2}
    async with in_memory(configuration(tmp_path, servers, limits=limits)) as host:
        assert (await host.run(wait.format(seconds=1.2))).value == 1.2
        answer = await host.run(wait.format(seconds=30))
    assert answer.error["setting"] == "limits.upstream_seconds"
    assert answer.content["calls"][0]["status"] == "cancelled"


async def test_programs_past_those_at_once_wait_and_then_are_refused(tmp_path: Path) -> None:
    servers = office(tmp_path, "slow")
    wait = "from servers.slow import wait\nwait(seconds={seconds})"
    limits = {"programs": 1, "queue_seconds": 60.0}
    async with in_memory(configuration(tmp_path, servers, limits=limits)) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.run, wait.format(seconds=0.3))
        await host.until(lambda: len(host.reached("wait")) == 1)
        assert (await host.run("1 + 1")).value == 2, "control: one that ends in time lets the next one in"
    limits["queue_seconds"] = 0.5
    async with in_memory(configuration(tmp_path, servers, limits=limits)) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(host.run, wait.format(seconds=60))
        await host.until(lambda: len(host.reached("wait")) == 2)
        answer = await host.run("1 + 1")
        assert answer.error["setting"] == "limits.programs"
        assert "limits.queue_seconds" in answer.error["message"]
        tasks.cancel_scope.cancel()


async def test_a_timeout_given_with_the_call_lowers_the_limit_and_cannot_raise_it(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, {}, limits={"wall_seconds": 5})) as host:
        answer = await host.run("x = 1\nwhile True:\n    x += 1\nx", timeout=0.5)
        assert answer.error["setting"] == "timeout"
        assert "timeout=0.5" in answer.error["message"]
        assert "upstream.yaml" not in answer.text, "no setting is to blame"
        refused = await host.run("1 + 1", timeout=50)
        assert "at most 5" in refused.text


async def test_a_program_out_of_time_says_the_line_that_ran_and_loses_nothing_that_it_printed(tmp_path: Path) -> None:
    spinning = "def spin(n):\n    while n:\n        n += 1\n\nprint('begun')\nspin(1)\nprint('never')"
    sleeping = "import asyncio\nasync def main():\n    print('begun')\n    await asyncio.sleep(60)\nasyncio.run(main())"
    async with in_memory(configuration(tmp_path, {}, limits={"wall_seconds": 5})) as host:
        for code, line in ((spinning, 3), (sleeping, 4)):
            answer = await host.run(code, timeout=2)
            assert answer.error["line"] == line
            assert f"line {line}" in answer.text
            assert "begun" in answer.text


async def test_the_journal_keeps_to_its_size_while_programs_run(tmp_path: Path) -> None:
    """Not only at the next pass of the upkeep: a program in a loop fills a disk in minutes."""
    state = {"dir": str(tmp_path / "state"), "journal_mb": 1}
    database = tmp_path / "state" / "codemode.db"

    def stored_bytes() -> int:
        with closing(sqlite3.connect(database)) as connection:
            return int(connection.execute("SELECT TOTAL(value_bytes) FROM executions").fetchone()[0])

    async with in_memory(configuration(tmp_path, {}, state=state)) as host:
        for number in range(40):
            assert (await host.run(f"{number}  # {'x' * 60_000}")).value == number
        await host.until(lambda: stored_bytes() <= 2**20)
