"""The product is killed at random instants while programs write: whatever reached an upstream is in the journal, and a
resumed program makes each write once. Those of which nobody knows whether they arrived are reported and not guessed.

Real products over stdio that share one state folder, two at a time, each killed by SIGKILL; the upstream is a process
that writes each call it receives to the disk before it answers. `KILLS=200` says how many times.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from codemode_server.domain.executions import ExecutionRecord, ExecutionStatus
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.startup.serve import serve
from codemode_server.storage.audit import Audit
from codemode_server.storage.history import History
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher
from tests.behaviour.product import UPSTREAMS, Host, configuration
from tests.database import rows
from tests.processes import children

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3_000),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

KILLS = int(os.environ.get("KILLS", "20"))
AT_ONCE = 2
WRITES = 100
OLD = {"protocolVersion": "2025-11-25"}
PROCESSES = multiprocessing.get_context("forkserver")
LOCAL = Principal(PrincipalId("default"))
PROGRAM = """
import asyncio
from codemode import ToolError
from servers.diary import record
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


def serve_product(config: Path, requests: Connection) -> None:
    """A product whose host is the test: what the process is that is killed."""
    os.dup2(requests.fileno(), 0)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    serve(config, None)


@contextmanager
def running(
    config: Path, code: str, target: Callable[[Path, Connection], None] = serve_product, *, resume: str = ""
) -> Iterator[BaseProcess]:
    """A product that was asked to run a program, or to resume the execution `resume`. It is forked off a process that
    has its modules, so that many of them start in reasonable time."""
    client, arguments = {"name": "test", "version": "1"}, {"resume": resume} if resume else {"code": code}
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": {**OLD, "capabilities": {}, "clientInfo": client}},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": {"name": "execute_code", "arguments": arguments}},
    ]
    reader, writer = PROCESSES.Pipe(duplex=False)
    with reader, writer:
        process = PROCESSES.Process(target=target, args=(config, reader))
        process.start()
        text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        os.write(writer.fileno(), text.encode())
        try:
            yield process
        finally:
            process.kill()
            process.join()


def kill(process: BaseProcess) -> set[tuple[int, str]]:
    """Kill it and nothing else; the processes below it, each with its start time, since numbers are used again."""
    assert process.pid
    os.kill(process.pid, signal.SIGSTOP)  # else it could start one while they are counted
    started = {(child, at) for child in children(process.pid) if (at := start_time(child)) is not None}
    process.kill()
    process.join()
    return started


def start_time(pid: int) -> str | None:
    """None if there is no such process, or only its exit status."""
    try:
        _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return None
    state, *others = fields.split()
    return None if state in "ZX" else others[18]


def received(log: Path) -> list[tuple[int, int]]:
    """The calls that reached the upstream: number of the run, and of the call in it."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(run, number) for run, number in map(json.loads, lines)]


def killed(path: Path, log: Path, run: int) -> set[tuple[int, str]]:
    """Kill one product: one in five at any instant since its start, the others after some of their writes arrived."""
    random = Random(run)
    count, seconds = (1_000_000, random.uniform(0, 3)) if run % 5 == 0 else (random.randint(1, WRITES - 1), 60)
    with running(path, PROGRAM.format(run=run)) as product:
        until = time.monotonic() + seconds
        while sum(run == its for its, _ in received(log)) < count and time.monotonic() < until:
            time.sleep(random.uniform(0, 0.01))
        return kill(product)


async def test_after_kills_all_that_arrived_is_recorded_and_a_resumed_program_makes_each_write_once(
    tmp_path: Path,
) -> None:
    log, state = tmp_path / "received", tmp_path / "state"
    diary = {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(log)]}
    path = configuration(tmp_path, {"diary": diary}, approvals={"unknown": "fail"})
    PROCESSES.set_forkserver_preload(["codemode_server.app", "codemode_server.mcp_server.server", __name__])
    with ThreadPoolExecutor(AT_ONCE) as threads:
        started = set().union(*threads.map(lambda run: killed(path, log, run), range(KILLS)))
    assert len(started) > KILLS, "control: each had an upstream and a sandbox"
    before = Counter(received(log))
    async with App.open(load(path)) as app, Client(app.front) as client:
        host = Host(client, tmp_path)
        await host.settled()  # the next product records what became of the others
        await host.until(lambda: not any(start_time(pid) == at for pid, at in started))
        await host.until(lambda: not rows(state, "SELECT 1 FROM executions WHERE ended_at IS NULL"))
        names = await History(app.stores.database, JournalCipher(state)).names(LOCAL, 0.0, None)
        executions = [it for name in names if (it := await app.stores.journal.execution(LOCAL, name))]
        unknown = await check_records(executions, app.stores.journal, app.stores.audit, before)
        reported = {name: (await host.call("execute_code", resume=name)).value for name in unknown}
        runs = runs_of(executions)
    assert reported == unknown, "reported, and nothing else"
    arrived = Counter(received(log))
    assert [call for call, times in arrived.items() if times > 1] == [], "twice"
    missing = [
        (runs[name], number)
        for name, numbers in unknown.items()
        for number in range(WRITES)
        if (runs[name], number) not in arrived and number not in numbers
    ]
    assert missing == []
    in_flight = [(runs[name], number) for name, numbers in unknown.items() for number in numbers]
    print(
        f"{KILLS} kills, {len(reported)} resumed; {before.total()} writes before and {arrived.total()} in all; "
        f"{len(in_flight)} unknown, of which {sum(one in arrived for one in in_flight)} had arrived"
    )
    assert len(reported) >= KILLS * 3 // 5, "control: the programs had begun"
    assert before.total() < arrived.total(), "control: there was something left to do"
    assert len(in_flight) >= KILLS // 4, "control: calls were in flight"
    assert rows(state, "PRAGMA integrity_check") == [("ok",)]


async def check_records(
    executions: list[ExecutionRecord], journal: Journal, audit: Audit, arrived: Counter[tuple[int, int]]
) -> dict[str, list[int]]:
    """Check that all that arrived was recorded; gives the calls without an outcome of each execution that was
    interrupted."""
    calls = {it.execution_id: await journal.calls(LOCAL, it.execution_id) for it in executions}
    begun = {(it.call.arguments["run"], it.call.arguments["number"]) for its in calls.values() for it in its}
    assert arrived.keys() - begun == set()
    assert arrived.total() == len(arrived), "no call was sent twice"
    assert arrived.total() > 5 * KILLS, "control"
    ended = {it.execution_id: it.status for it in executions}
    assert await audit.verified() == ""
    return {
        name: sorted(it.call.arguments["number"] for it in calls[name] if it.outcome is None)
        for name, status in ended.items()
        if status is ExecutionStatus.INTERRUPTED
    }


def runs_of(executions: list[ExecutionRecord]) -> dict[str, int]:
    """The number of the run that each execution is of."""
    programs = {PROGRAM.format(run=run): run for run in range(KILLS)}
    return {it.execution_id: programs[it.code or ""] for it in executions}
