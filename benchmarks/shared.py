"""What five hosts with ten sessions each cost with one running server, over hosts with a product of their own.

`python -m benchmarks.shared` prints memory, processes, the time to the first answers, and the spread over the sessions.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.product import HERE, INITIALIZE, stdio_upstream

HOSTS, SESSIONS, SERVERS, ROUNDS = 5, 50, 5, 4


class _Host:
    """One session, by raw lines."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._id = 0

    def ask(self, method: str, params: dict[str, Any]) -> float:
        """Seconds from the start of the process to the answer of a request."""
        self._id += 1
        self.send({"id": self._id, "method": method, "params": params})
        assert self.process.stdout
        while json.loads(self.process.stdout.readline()).get("id") != self._id:
            pass
        return time.perf_counter() - self.began

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self) -> tuple[float, float]:
        """Seconds to the handshake and to the list of tools."""
        handshake = self.ask("initialize", dict(INITIALIZE))
        self.send({"method": "notifications/initialized"})
        return handshake, self.ask("tools/list", {})

    def run(self, code: str = "1 + 1") -> float:
        """Seconds that a program takes."""
        before = time.perf_counter()
        self.ask("tools/call", {"name": "execute_code", "arguments": {"code": code}})
        return time.perf_counter() - before


def main() -> None:
    for standalone in (True, False):
        with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
            _measure(Path(name), stack, is_standalone=standalone)


def _measure(folder: Path, stack: ExitStack, *, is_standalone: bool) -> None:
    config = folder / "upstream.yaml"
    servers = {f"up{number}": stdio_upstream("20") for number in range(SERVERS)}
    config.write_text(json.dumps({"servers": servers, "state": {"dir": str(folder / "state")}}))
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "XDG_DATA_HOME": str(folder)}
    environment["CODEMODE_STANDALONE"] = str(int(is_standalone))
    command = [sys.executable, "-m", "codemode_server", "--config", str(config)]
    stack.callback(subprocess.run, [*command, "stop"], env=environment, check=False, stdout=subprocess.DEVNULL)

    def host() -> _Host:
        started = _Host(command, environment)
        stack.callback(started.process.wait)
        stack.callback(started.process.stdin.close)  # type: ignore[union-attr]
        return started

    title = "a product for each host" if is_standalone else "one running server"
    hosts = [host()]
    print(f"{title}: first host, nothing stored: {_shown(hosts[0].begin())}; first program {hosts[0].run():.2f} s")
    for _ in range(HOSTS - 1):
        hosts.append(host())
        times = hosts[-1].begin()
        first = hosts[-1].run()
    print(f"{title}: later host: {_shown(times)}; first program {first:.2f} s")
    time.sleep(8)
    count, mib = _cost(config)
    print(f"{title}: {HOSTS} hosts with {SERVERS} servers: {count} processes, {mib:.0f} MiB (PSS)")
    if is_standalone:
        return
    begun = []
    while len(hosts) < SESSIONS:
        hosts.append(host())
        begun.append(hosts[-1].begin()[0] * 1e3)
    count, mib = _cost(config)
    quantiles = statistics.quantiles(begun, n=20)
    print(
        f"{title}: {SESSIONS} sessions: {count} processes, {mib:.0f} MiB (PSS); handshake p50 "
        f"{statistics.median(begun):.0f} ms, p95 {quantiles[-1]:.0f} ms"
    )
    with ThreadPoolExecutor(SESSIONS) as threads:
        of_each = list(threads.map(lambda it: statistics.mean(it.run() for _ in range(ROUNDS)) * 1e3, hosts))
    print(
        f"{title}: `1 + 1` in {SESSIONS} sessions at once, mean of each session: {min(of_each):.0f} to "
        f"{max(of_each):.0f} ms, median {statistics.median(of_each):.0f} ms"
    )


def _shown(times: tuple[float, float]) -> str:
    return f"handshake {times[0] * 1e3:.0f} ms, list of tools {times[1] * 1e3:.0f} ms"


def _cost(config: Path) -> tuple[int, float]:
    """The processes that name the configuration or have it in the environment, with their children; their memory."""
    marker, count, kib = str(config.parent).encode(), 0, 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(process.name) == os.getpid() or (
                marker not in _said(process) and marker not in _said(_parent(process))
            ):
                continue
            kib += int((process / "smaps_rollup").read_text().partition("Pss:")[2].split()[0])
            count += 1
        except (OSError, IndexError, ValueError):
            continue
    return count, kib / 1024


def _said(process: Path) -> bytes:
    return (process / "cmdline").read_bytes() + (process / "environ").read_bytes()


def _parent(process: Path) -> Path:
    return Path("/proc", (process / "stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    main()
