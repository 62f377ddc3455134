"""Two servers, two sandbox nodes, HAProxy and PostgreSQL on this machine, while sixteen principals run programs: a
server is stopped for longer than its lease, then a node is killed and then the other server. Whatever reached the
upstream is recorded once, no write happens twice, and each program that was cut off goes on at the other server.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.principals import principal_id
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from tests.behaviour.product import UPSTREAMS, Answer, configuration
from tests.hosts.kit import PRODUCT, ROOT, Mode, Served, http_host
from tests.hosts.test_replicas import KEY, Cluster, cluster, noting
from tests.hosts.test_replicas import haproxy as haproxy
from tests.processes import all_gone, children
from tests.sandbox.nodes import TOKEN, RunningNode, node
from tests.storage.postgres import Cluster as Postgres
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

RUNS, PRINCIPALS, WRITES = 200, 16, 5
PROGRAM = """
import asyncio
from codemode import ToolError
from servers.diary import recall, record
unknown = []
for number in range(5):
    try:
        await record(run={run}, number=number)
    except ToolError:
        unknown.append(number)
    await recall(run={run}, number=number)
    await asyncio.sleep(0.1)
unknown
"""
Entry = tuple[Any, ...]
"""A call: number of the run, of the call in it, and `read` if it only reads."""


def every_write(runs: Iterable[int]) -> set[Entry]:
    return {(run, number) for run in runs for number in range(WRITES)}


@dataclass
class Load:
    both: Cluster
    postgres: Postgres
    database: str
    log: Path
    tokens: list[str]
    returned: dict[int, list[int]] = field(default_factory=dict)
    """What the program of each run gave to its host."""
    cut_off: dict[int, str] = field(default_factory=dict)
    """What the host of each other run got."""
    lost: list[BaseException] = field(default_factory=list)
    resumed: set[int] = field(default_factory=set)
    early: set[int] = field(default_factory=set)
    """Those that were resumed while the server that had begun them was stopped."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.postgres.execute(query, self.database)

    def arrived(self) -> Counter[Entry]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(tuple(json.loads(line)) for line in lines)

    def recorded(self) -> Counter[Entry]:
        return Counter(
            (it["run"], it["number"], "read") if tool == "recall" else (it["run"], it["number"])
            for tool, arguments in self.rows("SELECT tool, recorded_arguments FROM calls")
            for it in [json.loads(arguments)]
        )

    def host(self, principal: int, served: Served | None = None) -> Any:
        """A host of this principal, in one of the two eras; at the balancer, or at one server."""
        mode: Mode = "legacy" if principal % 2 else "auto"
        header = {"Authorization": f"Bearer {self.tokens[principal]}"}
        return http_host(served or self.both.balancer, self.both.folder, mode, **header)

    async def work(self, principal: int, runs: Iterator[int]) -> None:
        """One run after the other, in a session for as long as its server lives."""
        run = next(runs, None)
        while run is not None:
            with noting(self.lost):
                async with self.host(principal) as host:
                    while run is not None:
                        number, run = run, None
                        self.cut_off[number] = "no answer"
                        self.note(number, await host.run(PROGRAM.format(run=number)))
                        run = next(runs, None)
            run = next(runs, None) if run is None else run

    def note(self, run: int, answer: Answer) -> None:
        content = answer.result.structured_content or {}
        if content.get("status") == "succeeded":
            del self.cut_off[run]
            self.returned[run] = content["value"]
        else:
            self.cut_off[run] = answer.text

    def settled(self) -> int:
        return len(self.returned) + len(self.cut_off)

    async def in_the_middle(self, owner: str = "%") -> set[str]:
        """The executions of a server (or of all), once two of them have called and have not ended."""
        query = f"""
            SELECT e.execution_id FROM executions e JOIN calls c USING (execution_id)
            WHERE e.ended_at IS NULL AND e.owner LIKE '{owner}'
            GROUP BY e.execution_id HAVING count(*) BETWEEN 2 AND 7"""
        with anyio.fail_after(60):
            while len(found := {name for (name,) in self.rows(query)}) < 2:
                await anyio.sleep(0.01)
        return found

    def ended(self, status: str) -> set[str]:
        return {name for (name,) in self.rows(f"SELECT execution_id FROM executions WHERE status = '{status}'")}

    async def resume(self, name: str, served: Served) -> None:
        """Resume an execution at a server, by its principal; what it reports as unknown is noted for its run."""
        ((principal, code),) = self.rows(
            f"SELECT principal, recorded_code FROM executions WHERE execution_id = '{name}'"
        )
        async with self.host(int(principal.removeprefix("p")), served) as host:
            answer = await host.call("execute_code", resume=name)
        self.resumed.add(run_of(code))
        self.returned[run_of(code)] = answer.value


def run_of(code: str) -> int:
    found = re.search(r"run=(\d+)", code)
    assert found
    return int(found[1])


async def owner_of(load: Load, served: Served) -> str:
    """Under which name a server records what it runs."""
    async with load.host(0, served) as host:
        name = await host.execute()
    await until(lambda: load.rows(f"SELECT 1 FROM executions WHERE execution_id = '{name}'"))
    ((owner,),) = load.rows(f"SELECT owner FROM executions WHERE execution_id = '{name}'")
    return str(owner)


@dataclass
class Harm:
    """What was cut off by each, in the middle."""

    load: Load
    nodes: tuple[RunningNode, RunningNode]
    started: set[int] = field(default_factory=set)
    by_stop: set[str] = field(default_factory=set)
    by_node: set[str] = field(default_factory=set)
    by_kill: set[str] = field(default_factory=set)

    def note_processes(self) -> None:
        """All of the servers and nodes, before one of them is killed."""
        roots = {it.process.pid for it in (*self.load.both.replicas, *self.nodes)}
        self.started |= roots.union(*map(children, roots))

    async def do(self) -> None:
        load, (one, other) = self.load, self.load.both.replicas
        names = [await owner_of(load, it) for it in (one, other)]
        await until(lambda: load.settled() >= RUNS // 8, 120)
        await load.in_the_middle(names[0])
        one.process.send_signal(signal.SIGSTOP)
        try:
            running = f"SELECT execution_id FROM executions WHERE owner = '{names[0]}' AND ended_at IS NULL"
            stopped = {name for (name,) in load.rows(running)}
            await until(lambda: not load.rows(running))
            self.by_stop = load.ended("interrupted") & stopped
            async with anyio.create_task_group() as tasks:
                for name in sorted(self.by_stop)[::2]:
                    tasks.start_soon(load.resume, name, other)
                again = f"SELECT 1 FROM executions WHERE owner = '{names[1]}' AND execution_id IN "
                await until(lambda: load.rows(f"{again}({', '.join(map(repr, self.by_stop))})"))
                one.process.send_signal(signal.SIGCONT)
        finally:
            one.process.send_signal(signal.SIGCONT)
        load.early |= load.resumed
        await until(lambda: load.settled() >= RUNS // 2, 120)
        self.note_processes()
        failed = load.ended("sandbox_failed")
        await load.in_the_middle()
        self.nodes[0].signal(signal.SIGKILL)
        await until(lambda: load.ended("sandbox_failed") - failed)
        self.by_node = load.ended("sandbox_failed") - failed
        await until(lambda: load.settled() >= RUNS * 3 // 4, 120)
        self.note_processes()
        before = await load.in_the_middle(names[1])
        other.process.kill()
        await until(lambda: before <= load.ended("interrupted") | load.ended("succeeded"))
        self.by_kill = load.ended("interrupted") & before


async def test_whatever_reached_the_upstream_is_recorded_once_and_what_was_cut_off_goes_on_elsewhere(
    tmp_path: Path, postgres: Postgres
) -> None:
    log, state = tmp_path / "received", tmp_path / "state"
    workspaces = state / "workspaces"
    for folder in (state, workspaces):
        folder.mkdir(mode=0o700)
    tokens = [AccessTokens(state).create(principal_id(f"p{it}"), None)[0] for it in range(PRINCIPALS)]
    options = ("--programs", str(PRINCIPALS), "--workspaces", workspaces)
    database = postgres.database()
    async with node(*options) as first, node(*options) as second:
        path = configuration(
            tmp_path,
            {"diary": {"command": sys.executable, "args": [str(UPSTREAMS / "diary.py"), str(log)]}},
            state={"dir": str(state), **KEY, "database": database.url, "payloads": "all"},
            sandbox={"backend": "remote", "nodes": [first.address, second.address], "node_token": TOKEN},
            approvals={"unknown": "fail", "browser": "never"},
            limits={"programs": PRINCIPALS // 2, "queue_seconds": 120},
        )
        with cluster(path) as both:
            name = database.url.partition("@/")[2].partition("?")[0]
            load = Load(both, postgres, name, log, tokens)
            harm = Harm(load, (first, second))
            began, runs = time.monotonic(), iter(range(RUNS))
            with anyio.fail_after(300):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(harm.do)
                    for principal in range(PRINCIPALS):
                        tasks.start_soon(load.work, principal, runs)
                took = time.monotonic() - began
                await until(lambda: not load.rows("SELECT 1 FROM executions WHERE ended_at IS NULL"))
                arrived, recorded = load.arrived(), load.recorded()
                cut_off = [it for (it,) in load.rows("SELECT execution_id FROM executions WHERE status <> 'succeeded'")]
                for execution_id in cut_off:
                    await load.resume(execution_id, both.replicas[0])
            harm.note_processes()
    await all_gone(*harm.started)
    print(
        f"{RUNS} runs in {took:.1f} s; {len(harm.by_stop)} cut off by the stop, {len(harm.by_node)} by the node, "
        f"{len(harm.by_kill)} by the kill; {len(cut_off)} resumed at the end; {arrived.total()} calls arrived before"
    )
    begun = Counter(run_of(code) for (code,) in load.rows("SELECT recorded_code FROM executions") if "run=" in code)
    never_begun = set(range(RUNS)) - begun.keys()
    assert [it for it, times in begun.items() if times > 1] == [], "no program ran twice by itself"
    # A server that is killed between the record of the end and the answer: the host finds it in the record.
    unanswered = begun.keys() - load.returned.keys()
    assert unanswered <= load.cut_off.keys()
    done = load.rows("SELECT recorded_code FROM executions WHERE status = 'succeeded' AND recorded_code LIKE '%run=%'")
    assert {run_of(code) for (code,) in done} == begun.keys()
    assert len(unanswered) < PRINCIPALS // 2
    load.returned |= {run: [] for run in unanswered}
    assert never_begun <= load.cut_off.keys(), "its host got an error"
    check_calls(load, arrived, recorded, load.resumed)
    verify = (*PRODUCT, "--config", str(path), "audit", "verify")
    verified = await anyio.run_process(verify, cwd=ROOT, check=False)
    assert verified.returncode == 0, (verified.stdout, verified.stderr)
    assert min(map(len, (harm.by_stop, harm.by_node, harm.by_kill))) >= 1, "control: each came in the middle"
    assert len(never_begun) < RUNS // 10, "control"


def check_calls(load: Load, arrived: Counter[Entry], recorded: Counter[Entry], cut_off: set[int]) -> None:
    """`arrived` and `recorded` are of before what was cut off was resumed at the end; `cut_off` are all those runs."""
    writes = {it: (times, recorded[it]) for it, times in arrived.items() if len(it) == 2 and it[0] not in load.early}
    assert {it: both for it, both in writes.items() if both != (1, 1)} == {}, "once upstream, and once in the record"
    # A call that only reads is recorded while it is sent, and again when it is repeated.
    assert {run for run, *_ in arrived.keys() - recorded.keys()} <= cut_off
    assert [it for it in arrived.keys() - recorded.keys() if len(it) == 2] == []
    assert {it[0] for it, times in arrived.items() if times > 1} <= load.early
    assert {it[0] for it, times in recorded.items() if times > 1} <= load.early
    at_last = load.arrived()
    assert [it for it, times in at_last.items() if times > 1 and len(it) == 2] == [], "a write twice"
    assert [it for it in at_last.keys() - load.recorded().keys() if len(it) == 2] == []
    assert {it[0] for it, times in at_last.items() if times > 1} <= cut_off
    unknown = {(run, number) for run, numbers in load.returned.items() for number in numbers}
    assert every_write(load.returned) - at_last.keys() <= unknown, "a write is missing, and nobody said so"
    assert {run for run, _ in unknown} <= cut_off
    assert at_last.total() > arrived.total(), "control: there was something left to do"
