"""The product is killed at random instants while programs call: whatever reached an upstream is in the journal.

Real products over stdio that share one state folder, two at a time, each killed by SIGKILL; the upstream is a process
that writes each call it receives to the disk before it answers.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Principal
from codemode_server.serve import serve
from codemode_server.storage.database import FILE_NAME
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_journal import SqliteJournal
from tests.behaviour.product import UPSTREAMS, configuration, in_memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

KILLS = 50
AT_ONCE = 2
OLD = {"protocolVersion": "2025-11-25"}
PROCESSES = multiprocessing.get_context("forkserver")
LOCAL = Principal(PrincipalId("default"))
PROGRAM = """
import asyncio
from servers.recorder import record

async def some(first):
    for number in range(first, 100_000, 4):
        await record(run={run}, number=number)

await asyncio.gather(*map(some, range(4)))
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
    has its modules, so that 50 of them start in reasonable time."""
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
    """Kill it and nothing else; the processes that it had started."""
    assert process.pid
    os.kill(process.pid, signal.SIGSTOP)  # else it could start one while they are counted
    started = descendants(process.pid)
    process.kill()
    process.join()
    return started


def descendants(pid: int) -> set[tuple[int, str]]:
    """Processes below one, each with its start time, since numbers are used again."""
    found: set[tuple[int, str]] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if (started := start_time(int(child))) is not None:
                found |= {(int(child), started), *descendants(int(child))}
    return found


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
    """Kill one product: one in five at any instant since its start, the others after some of their calls arrived."""
    random = Random(run)
    count, seconds = (1_000_000, random.uniform(0, 2)) if run % 5 == 0 else (random.randint(1, 20), 60)
    with running(path, PROGRAM.format(run=run)) as product:
        until = time.monotonic() + seconds
        while sum(run == its for its, _ in received(log)) < count and time.monotonic() < until:
            time.sleep(random.uniform(0, 0.01))
        return kill(product)


async def test_after_50_kills_every_call_that_reached_the_upstream_is_in_the_journal(tmp_path: Path) -> None:
    log, state = tmp_path / "received", tmp_path / "state"
    recorder = {"command": sys.executable, "args": [str(UPSTREAMS / "recorder.py"), str(log)]}
    path = configuration(tmp_path, {"recorder": recorder}, limits={"calls": 100_000})
    PROCESSES.set_forkserver_preload(["codemode_server.app", "codemode_server.front.server", __name__])
    with ThreadPoolExecutor(AT_ONCE) as threads:
        started = set().union(*threads.map(lambda run: killed(path, log, run), range(KILLS)))
    async with in_memory(path) as host:  # the next product records what became of the others
        await host.until(lambda: not any(start_time(pid) == at for pid, at in started))
        assert (await host.run("1+1")).value == 2
        await host.until(lambda: unsettled(state) == 0)
    assert len(started) > KILLS, "control: each had an upstream and a sandbox"
    with closing(DatabaseThread(state)) as thread:
        journal, audit = SqliteJournal(thread, JournalCipher(state)), SqliteAudit(thread)
        executions = await journal.executions(LOCAL, limit=1_000)
        calls = [call for it in executions for call in await journal.calls(LOCAL, it.execution_id)]
        begun = {(it.call.arguments.get("run"), it.call.arguments.get("number")) for it in calls}
        arrived = received(log)
        assert set(arrived) - begun == set()
        assert len(arrived) == len(set(arrived)), "no call was sent twice"
        assert len(arrived) > 5 * KILLS, "control"
        assert len({run for run, _ in arrived}) >= KILLS * 4 // 5, "control: their programs were calling"
        assert sum(it.outcome is None for it in calls) > KILLS // 2, "control: calls were in flight"
        ended = {it.execution_id: it for it in await audit.executions(LOCAL, limit=1_000)}
        assert {it.execution_id: it.status for it in executions} == {name: it.status for name, it in ended.items()}
        interrupted = [it for it in ended.values() if it.status is ExecutionStatus.INTERRUPTED]
        assert len(interrupted) >= KILLS * 4 // 5
        assert await audit.verified() == (None, 0)
    with closing(sqlite3.connect(state / FILE_NAME)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def unsettled(state: Path) -> int:
    with closing(sqlite3.connect(state / FILE_NAME)) as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM journal_executions WHERE ended_at IS NULL").fetchone()
    return int(count)
