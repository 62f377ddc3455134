"""The product is killed at random instants of a program with 100 writes, and the program is resumed: no write is made
twice, none is missing, and those of which nobody knows whether they arrived are reported and not guessed.

The harness is that of `test_kills`: real products over stdio, killed by SIGKILL, and an upstream that writes each call
to the disk before it answers. `KILLS=200` says how many times.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.domain.executions import CallRecord, ExecutionStatus
from codemode_server.gateway.journal import Journal
from tests.behaviour.product import UPSTREAMS, Host, configuration
from tests.storage.test_kills import AT_ONCE, LOCAL, PROCESSES, kill, received, running, start_time

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3_000),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

KILLS = int(os.environ.get("KILLS", "8"))
WRITES = 100
PROGRAM = """
import asyncio
from codemode import ToolError
from servers.recorder import record
run, unknown = {run}, []

async def some(first):
    for number in range(first, 100, 4):
        try:
            await record(run=run, number=number)
        except ToolError as error:
            unknown.append(number)

await asyncio.gather(*map(some, range(4)))
sorted(unknown)
"""


@dataclass
class Interrupted:
    """One killed run."""

    run: int
    name: str | None
    """The id of its execution; None if it was killed before it began, or after its end."""
    unknown: list[int]
    """The calls that the journal has without an outcome."""


def killed(path: Path, log: Path, run: int) -> set[tuple[int, str]]:
    """Kill one product: one in five at any instant since its start, the others after some of their writes arrived."""
    random = Random(run)
    count, seconds = (1_000_000, random.uniform(0, 3)) if run % 5 == 0 else (random.randint(1, WRITES - 1), 60)
    with running(path, PROGRAM.format(run=run)) as product:
        until = time.monotonic() + seconds
        while sum(run == its for its, _ in received(log)) < count and time.monotonic() < until:
            time.sleep(random.uniform(0, 0.01))
        return kill(product)


async def interrupted(journal: Journal, run: int) -> Interrupted:
    executions = await journal.executions(LOCAL, limit=1_000)
    its = [it for it in executions if it.code == PROGRAM.format(run=run)]
    if not its or its[0].status is ExecutionStatus.SUCCEEDED:
        return Interrupted(run, None, [])
    name = its[0].execution_id
    calls = await journal.calls(LOCAL, name)
    return Interrupted(run, name, sorted(number_of(it) for it in calls if it.outcome is None))


def number_of(record: CallRecord) -> int:
    number: int = record.call.arguments["number"]
    return number


async def resumed(host: Host, one: Interrupted) -> list[int]:
    """What the program could not do, for not knowing whether it had; it has come to its end."""
    answer = await host.call("execute_code", resume=one.name)
    unknown: list[int] = answer.value
    return unknown


async def test_after_kills_a_resumed_program_makes_each_write_once(tmp_path: Path) -> None:
    log = tmp_path / "received"
    recorder = {"command": sys.executable, "args": [str(UPSTREAMS / "recorder.py"), str(log)]}
    path = configuration(tmp_path, {"recorder": recorder}, approvals={"unknown": "fail"})
    PROCESSES.set_forkserver_preload(
        ["codemode_server.app", "codemode_server.front.server", "tests.storage.test_kills"]
    )
    with ThreadPoolExecutor(AT_ONCE) as threads:
        started = set().union(*threads.map(lambda run: killed(path, log, run), range(KILLS)))
    before = Counter(received(log))
    async with App.open(load(path)) as app, Client(app.front) as client:
        host = Host(client, tmp_path)
        await host.settled()
        await host.until(lambda: not any(start_time(pid) == at for pid, at in started))
        runs = [await interrupted(app.stores.journal, run) for run in range(KILLS)]
        reported = {one.run: await resumed(host, one) for one in runs if one.name is not None}
    assert reported == {one.run: one.unknown for one in runs if one.name is not None}, "reported, and nothing else"
    arrived = Counter(received(log))
    assert [call for call, times in arrived.items() if times > 1] == [], "twice"
    missing = [
        (run, number)
        for run, unknown in reported.items()
        for number in range(WRITES)
        if (run, number) not in arrived and number not in unknown
    ]
    assert missing == []
    unknown = [(run, number) for run, numbers in reported.items() for number in numbers]
    print(
        f"{KILLS} kills, {len(reported)} resumed; {before.total()} writes before and {arrived.total()} in all; "
        f"{len(unknown)} unknown, of which {sum(one in arrived for one in unknown)} had arrived"
    )
    assert len(reported) >= KILLS * 3 // 5, "control: the programs had begun"
    assert before.total() < arrived.total(), "control: there was something left to do"
    assert len(unknown) >= KILLS // 4, "control: calls were in flight"
