"""What many people and many records cost, as ratios in one run: `make bench-scale`, which writes `SCALE.md`.

It takes some minutes, and PostgreSQL and HAProxy for most of its rows. A number as its argument is that of the recorded
calls, in place of a million.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio

from benchmarks import many_records
from benchmarks.peers import figures_of, our_server
from benchmarks.product import HERE, HostSession, configuration, stdio_upstream
from benchmarks.report import Row, measured_by, milliseconds_of, rows_table
from codemode_server.domain.principals import principal_id
from codemode_server.mcp_server.auth.access_tokens import AccessTokens
from tests.hosts.balancer import HAPROXY, balanced
from tests.hosts.kit import Served, serving
from tests.sandbox.nodes import TOKEN, node
from tests.storage.postgres import Cluster, cluster, programs

PRINCIPALS, EXECUTIONS = 16, 64
CALLS = 1_000_000
_ROUNDS, _SECONDS = 5, 2.0
"""In each round all take turns, for so long."""
_KEY = "k" * 64
_ONE = "1 + 1"
_CALL = "from servers.bench import echo\necho(number=1)"


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else CALLS
    found = programs()
    with nullcontext() if found is None else cluster(found, waits_for_disk=True) as server, _folder() as folder:
        rows = [anyio.run(at_once, folder / "at-once")]
        if server is None or HAPROXY is None:
            missing = "PostgreSQL" if server is None else "HAProxy"
            rows.append(Row("replicas and sandbox nodes", f"skipped: {missing} is not installed"))
        else:
            rows += anyio.run(throughput, folder / "replicas", server)
        if server is not None:
            rows += on_postgres(folder / "calls", server)
        rows += many_records.rows(folder, server, count)
    print(rows_table(rows))
    report = ["# Scale\n", measured_by("make bench-scale"), "Times are of a shared machine: read the ratios.\n"]
    (HERE / "SCALE.md").write_text("\n".join([*report, rows_table(rows)]))
    return 1 if any(row.is_met is False for row in rows) else 0


def on_postgres(folder: Path, server: Cluster) -> list[Row]:
    """Small programs recorded on PostgreSQL over those on SQLite."""
    servers = []
    for name, state in {"sqlite": {}, "postgres": {"database": server.database().url}}.items():
        place = folder / name
        place.mkdir(parents=True)
        servers.append(our_server(place, state={"dir": str(place / "state"), **state}))
    with Path(os.devnull).open("w") as log:
        sqlite, postgres = anyio.run(figures_of, servers, log)
    rows = []
    for what, here, there, limit in (
        ("`1 + 1`", sqlite.one[0], postgres.one[0], 1.5),
        ("a program with one call", sqlite.call[0], postgres.call[0], 1.5),
        ("each further call, recorded durably", sqlite.further[0], postgres.further[0], 2.0),
    ):
        measured = f"{there / here:.2f} x ({there:.2f} over {here:.2f} ms)"
        rows.append(Row(f"{what}, on PostgreSQL over SQLite", measured, f"under {limit:g} x", there / here < limit))
    return rows


async def throughput(folder: Path, server: Cluster) -> list[Row]:
    """Programs a second of sixteen principals, one each at a time, on replicas behind HAProxy."""
    state = {"dir": str(folder / "state"), "key": _KEY, "database": server.database().url}
    tokens = _tokens(folder)
    async with node("--programs", str(2 * PRINCIPALS)) as one_node:
        remote = {"backend": "remote", "nodes": [one_node.address], "node_token": TOKEN}
        with ExitStack() as stack:
            replicas = [
                stack.enter_context(_served(folder / name, state=state, **sections))
                for name, sections in {"a": {}, "b": {}, "remote": {"sandbox": remote}}.items()
            ]
            one, other, distant = replicas
            fronts = {"1": (one, one), "2": (one, other), "remote": (distant, distant)}
            ports = {name: stack.enter_context(balanced(*pair)).port for name, pair in fronts.items()}
            rows = []
            for what, code in (("`1 + 1`", _ONE), ("one call", _CALL)):
                rates: dict[str, list[float]] = {name: [] for name in ports}
                sessions = {name: [_session(port, token) for token in tokens] for name, port in ports.items()}
                for turn in range(_ROUNDS + 1):
                    for name in ports:
                        times = await anyio.to_thread.run_sync(_times, sessions[name], code)
                        if turn > 0:  # the first fills pools and caches
                            rates[name].append(len(times) / _SECONDS)
                for session in (it for those in sessions.values() for it in those):
                    session.close()
                single, double, far = (statistics.median(rates[name]) for name in ports)
                of = f"programs a second, {what}, of {PRINCIPALS} principals"
                rows.append(
                    Row(f"{of}: 2 replicas over 1", f"{double / single:.2f} x ({double:.0f} over {single:.0f})")
                )
                measured = f"{far / single:.2f} x ({far:.0f} over {single:.0f})"
                rows.append(Row(f"{of}: sandboxes on a node of this machine over local ones", measured))
    return rows


async def at_once(folder: Path) -> Row:
    """64 executions at once of 16 principals over one alone."""
    tokens = _tokens(folder)
    with _served(folder, state={"dir": str(folder / "state"), "key": _KEY}) as served:
        sessions = [_session(served.port, tokens[number % PRINCIPALS]) for number in range(EXECUTIONS)]
        alone, together = [], []
        for _ in range(_ROUNDS):
            alone += await anyio.to_thread.run_sync(_times, sessions[:1], _ONE)
            together += await anyio.to_thread.run_sync(_times, sessions, _ONE)
        for session in sessions:
            session.close()
    median, p95 = statistics.median(alone), statistics.quantiles(together, n=20)[18]
    measured = f"{p95 / median:.1f} x ({p95:.0f} over {median:.1f} ms)"
    what = f"p95 of `1 + 1` with {EXECUTIONS} at once, of {PRINCIPALS} principals, over the median of one alone"
    # One after another would take so long.
    return Row(what, measured, f"under {EXECUTIONS} x", p95 / median < EXECUTIONS)


def _times(sessions: Sequence[HostSession], code: str) -> list[float]:
    """Milliseconds of each program that ended in time, of sessions that run one after another."""
    until = time.monotonic() + _SECONDS

    def work(session: HostSession) -> list[float]:
        times = []
        session.disconnect()  # idle connections are closed, also in this moment
        while time.monotonic() < until:
            times.append(milliseconds_of(lambda: _run(session, code)))
        return times

    with ThreadPoolExecutor(len(sessions)) as threads:
        return [it for times in threads.map(work, sessions) for it in times]


def _run(session: HostSession, code: str) -> None:
    answer = session.run(code)
    assert answer.startswith("value:"), answer


def _session(port: int, token: str) -> HostSession:
    session = HostSession(port, token)
    session.open()
    return session


def _tokens(folder: Path) -> list[str]:
    """One of each principal, in a new folder with its state."""
    (folder / "state").mkdir(mode=0o700, parents=True)
    return [AccessTokens(folder / "state").create(principal_id(f"p{it}"), None)[0] for it in range(PRINCIPALS)]


@contextmanager
def _served(folder: Path, **sections: Any) -> Iterator[Served]:
    folder.mkdir(exist_ok=True)
    limits = {"programs": 8, "queue_seconds": 120}
    path = configuration(
        folder, {"bench": stdio_upstream()}, **{"sandbox": {"backend": "wasm"}, **sections}, limits=limits
    )
    with serving(path, is_forked=False) as served:
        yield served


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
