"""Small programs beside toolplane, and the floors below them, in one run: `make bench-peers`; `make bench` has it too.

Each server is started as a host starts it, over stdio, with the same upstream of 600 tools and the same client, and
they take turns. toolplane runs programs in Monty, an interpreter of a subset of Python inside its own process, and
records nothing; codemode-server runs CPython in a sandbox outside its process, checks the program and records calls.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TextIO, cast

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from benchmarks.product import UPSTREAM, children, configuration, is_worker, processor_ms, stdio_upstream
from benchmarks.report import Row, milliseconds, milliseconds_of, rows_table
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox import frames
from codemode_server.sandbox.backends.wasm import component
from codemode_server.sandbox.contract import Limits, Program
from scripts.npm import Unavailable
from scripts.real_servers import environment

REQUIREMENTS = ("toolplane==0.5.2", "pydantic-monty==1.4.0")
ROUNDS, RUNS = 7, 9
"""In each round the servers take turns, and run each program so many times."""
MANY = 11
"""Calls of the third program; with the second, the cost of each further call."""
_SETTLE_SECONDS = 0.3
"""For what happens after the answer."""
_CONNECT_SECONDS = 60.0
TOOLS = "600"


@dataclass(frozen=True)
class Server:
    """One server with its way to run a program."""

    name: str
    command: Sequence[str]
    one: str
    """The program `1 + 1`."""
    call: str
    """A call of the upstream's `echo_5`, as an expression."""
    before: str = ""
    """Lines before the first call."""
    result: str = "return "

    def programs(self) -> tuple[tuple[str, str], ...]:
        """`1 + 1`, one call, many; and a text that has to be in each answer."""
        many = f"{self.before}for _ in range({MANY}):\n    answer = {self.call}\n{self.result}answer"
        return (self.one, "2"), (f"{self.before}{self.result}{self.call}", "number"), (many, "number")


@dataclass
class Cost:
    """Milliseconds of one program or call: each run until its answer, and the processor time of each round's runs."""

    times: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)

    async def add(self, pids: Sequence[int], run: Callable[[], Awaitable[object]], runs: int = RUNS) -> None:
        before = _processor(pids)
        self.times += [await milliseconds(run) for _ in range(runs)]
        await anyio.sleep(_SETTLE_SECONDS)
        host, worker = (now - then for now, then in zip(_processor(pids), before, strict=True))
        self.host.append(host / runs)
        self.worker.append(worker / runs)

    def medians(self) -> tuple[float, float, float]:
        return statistics.median(self.times), statistics.median(self.host), statistics.median(self.worker)


@dataclass(frozen=True)
class Figures:
    """What a server needs: its time, the host's and the worker's processor time, in milliseconds."""

    name: str
    one: tuple[float, ...]
    call: tuple[float, ...]
    further: tuple[float, ...]


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        servers = [our_server(place)]
        try:
            servers.append(_toolplane(place))
        except Unavailable as error:
            print(f"toolplane can't be installed: {error}", file=sys.stderr)
        with Path(os.devnull).open("w") as log:
            ours, *theirs = anyio.run(figures_of, servers, log)
            direct_ms, direct_cpu = anyio.run(_direct_call, log)
        bare, commit = _bare_worker(place), _commit(place)
    found = [row for peer in theirs for row in _beside(ours, peer)]
    one = f"host {ours.one[1]:.2f} ms, worker {ours.one[2]:.2f} ms"
    further = f"host {ours.further[1]:.2f} ms, worker {ours.further[2]:.2f} ms"
    for peer in theirs:
        one += f"; {peer.name} {peer.one[1]:.2f} ms"
        further += f"; {peer.name} {peer.further[1]:.2f} ms"
    return [
        *found,
        Row("processor time of `1 + 1`", one, "host under 3 ms", ours.one[1] < 3),
        Row("processor time of each further call", further, "host under 1.2 ms", ours.further[1] < 1.2),
        Row("floor of `1 + 1`: the worker, driven by a bare loop", f"{bare:.2f} ms"),
        Row("floor of a call: mcp's client, directly", f"{direct_ms:.2f} ms, processor {direct_cpu:.2f} ms"),
        Row("floor of a record: one durable commit of SQLite", f"{commit:.2f} ms"),
    ]


def _beside(ours: Figures, peer: Figures) -> list[Row]:
    rows = []
    for what, own, other, limit in (
        ("`1 + 1`", ours.one, peer.one, 1.0),
        ("a program with one call, 600 tools", ours.call, peer.call, 1.0),
        ("each further call, recorded durably", ours.further, peer.further, 1.5),
    ):
        ratio = own[0] / other[0]
        measured = f"{ratio:.2f} x ({own[0]:.2f} over {other[0]:.2f} ms)"
        rows.append(Row(f"{what}, over {peer.name}", measured, f"under {limit:g} x", ratio < limit))
    return rows


def our_server(place: Path, **sections: Any) -> Server:
    config = configuration(place, {"bench": stdio_upstream(TOOLS)}, sandbox={"backend": "wasm"}, **sections)
    command = (sys.executable, "-m", "codemode_server", "serve", "--standalone", "--config", str(config))
    imports = "from servers.bench import echo_5\n"
    return Server("codemode-server", command, "1 + 1", "echo_5(number=1)", before=imports, result="")


def _toolplane(place: Path) -> Server:
    python = environment("peers", REQUIREMENTS, "\n".join(REQUIREMENTS))
    config = place / "toolplane.toml"
    config.write_text(
        f"[mcp.servers.bench]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([UPSTREAM, TOOLS])}\n"
    )
    command = (str(python.with_name("toolplane")), "serve", "mcp", "--config", str(config))
    call = 'await call_tool("mcp:bench/echo_5", {"number": 1})'
    return Server(REQUIREMENTS[0].replace("==", " "), command, "return 1 + 1", call)


async def figures_of(servers: Sequence[Server], log: TextIO) -> list[Figures]:
    costs = [[Cost() for _ in server.programs()] for server in servers]
    async with AsyncExitStack() as stack:
        running = []
        for server in servers:
            client, pid = await _started(stack, server.command, log)
            runs = [_run(client, server.name, *program) for program in server.programs()]
            for run in runs:
                await _warm_up(run)
            running.append((pid, runs))
        for _ in range(ROUNDS):
            for (pid, runs), cost in zip(running, costs, strict=True):
                for each, run in zip(cost, runs, strict=True):
                    await each.add((pid, *children(pid)), run)
    figures = []
    for server, cost in zip(servers, costs, strict=True):
        one, call, many = (each.medians() for each in cost)
        further = tuple((most - least) / (MANY - 1) for most, least in zip(many, call, strict=True))
        figures.append(Figures(server.name, one, call, further))
    return figures


async def _started(stack: AsyncExitStack, command: Sequence[str], log: TextIO) -> tuple[Client, int]:
    """A client, and the process that it has started."""
    before = set(children(os.getpid()))
    process = stdio_client(StdioServerParameters(command=command[0], args=list(command[1:])), errlog=log)
    client = await stack.enter_async_context(Client(process, mode="legacy"))
    return client, next(pid for pid in children(os.getpid()) if pid not in before)


def _run(client: Client, name: str, code: str, expected: str) -> Callable[[], Awaitable[object]]:
    async def run() -> None:
        answer = await client.call_tool("execute_code", {"code": code}, read_timeout_seconds=120)
        text = "".join(getattr(block, "text", "") for block in answer.content)
        if answer.is_error or expected not in text:
            raise RuntimeError(f"{name}: {text}")

    return run


async def _warm_up(run: Callable[[], Awaitable[object]]) -> None:
    """Wait until the upstream is connected, then load what is loaded once."""
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return await Cost().add((), run)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            await anyio.sleep(0.2)


async def _direct_call(log: TextIO) -> tuple[float, float]:
    """A call of the upstream by mcp's client: milliseconds until the answer, and of processor time of this process."""
    cost = Cost()
    async with AsyncExitStack() as stack:
        client, _ = await _started(stack, [sys.executable, UPSTREAM, TOOLS], log)
        for _ in range(ROUNDS):
            await cost.add((os.getpid(),), lambda: client.call_tool("echo_5", {"number": 1}), runs=50)
    return cost.medians()[:2]


def _processor(pids: Sequence[int]) -> tuple[float, float]:
    """Milliseconds of processor time of the host (the first), and of its workers."""
    return sum(map(processor_ms, pids[:1])), sum(processor_ms(pid) for pid in pids[1:] if is_worker(pid))


def _bare_worker(place: Path, runs: int = 60) -> float:
    """Milliseconds of `1 + 1` in a worker with blocking pipes: make an instance, run, wait until it has ended."""
    folder = place / "scratch"
    folder.mkdir()
    command = [sys.executable, "-I", "-B", str(component.WORKER), "serve", str(component.wasmtime_folder())]
    native_code = component.prepared(lambda _: None)
    process = subprocess.Popen(
        [*command, str(native_code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=component.worker_environment(),
    )
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    limits = Limits()
    settings = {
        "memory_bytes": limits.memory_mb * 2**20,
        "frame_bytes": frames.longest_frame(limits),
        "file_bytes": limits.workspace_mb * 2**20,
        "folders": {"/tmp": str(folder)},
        "read_only": [],
    }
    empty = struct.pack(">I", 0)
    prepare = empty + frames.encode(settings) + empty
    program = frames.run_frame(Program(ExecutionId("bare"), "1 + 1", limits))

    def read() -> bytes:
        (size,) = struct.unpack(">I", stdout.read(4))
        return stdout.read(size)

    def send(data: bytes) -> None:
        stdin.write(data)
        stdin.flush()

    def run() -> None:
        send(program)
        while b'"done"' not in read():
            pass

    read()
    times = []
    for _ in range(runs):
        send(prepare)  # the product does that before the request comes, too
        assert read() == b""
        times.append(milliseconds_of(run))
        assert read() == b""
    stdin.close()
    process.wait()
    return statistics.median(times)


def _commit(place: Path, runs: int = 200) -> float:
    """Milliseconds of a transaction of one row that is on the disk when it returns, as a call's record is."""
    with closing(sqlite3.connect(place / "floor.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, begun TEXT)")
        insert = "INSERT INTO calls (begun) VALUES (?)"
        return statistics.median(milliseconds_of(lambda: connection.execute(insert, ("x" * 300,))) for _ in range(runs))


if __name__ == "__main__":
    print(rows_table(rows()))
