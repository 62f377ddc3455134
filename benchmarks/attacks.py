"""What one attacker costs the others: how much later another session's `1+1` is answered, and the host's memory.

    make bench ARGS="--attacks [WORDS…]"      the attacks whose names contain all of the words, else all of them

One attack at a time on the real product over HTTP: the attacker is a process of its own, the other session runs `1+1`
without a pause. The delay is the longest of its requests less the median of quiet ones of the same product; an attack
over the budget is repeated twice, and the best counts, since one slow moment of the machine is no attack.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from benchmarks.attack_table import ATTACKS, Attack
from benchmarks.product import (
    HERE,
    HostSession,
    NoAnswer,
    Product,
    children,
    kind_of,
    peak_mib,
    reset_peak,
    resident_mib,
)
from benchmarks.report import table

DELAY_MS = 250.0
HOST_MIB = 128.0
WORKER_MIB = 256 + 128.0
"""`limits.memory_mb`, and what the interpreter and one large value on its way need."""
KILLED_ABOVE_MIB = 3_000.0
"""The product is ended there, so that an attack which works doesn't end the machine."""
QUIET_RUNS = 25
REPEATS = 2
_ATTACK_SECONDS = 10.0
_UPSTREAM_SECONDS = 4.0
"""`limits.upstream_seconds`, so that an attack which makes its program wait has an end."""
_AFTER_SECONDS = 0.3
_REUSED_WITHIN_MIB = 16.0
HOSTILE = str(HERE / "hostile.py")


@dataclass
class Cost:
    """What one attack cost."""

    attack: str
    delay_ms: float
    host_mib: float
    """The product's process and what it started besides workers and upstreams, above what they had."""
    worker_mib: float
    """The largest worker."""
    answers: int
    """How many `1+1` were answered meanwhile."""
    fault: str = ""
    """Why a request of the other session was not answered with 2."""
    outcome: str = ""
    """What the attacker got."""

    @property
    def excess(self) -> float:
        """How many times the budget; below 1 it is kept."""
        if self.fault:
            return float("inf")
        return max(self.delay_ms / DELAY_MS, self.host_mib / HOST_MIB, self.worker_mib / WORKER_MIB)


def main(words: list[str]) -> int:
    found = costs([name for name in ATTACKS if all(word in name for word in words)], announce=True)
    missed = [cost for cost in found if cost.excess >= 1]
    print(f"{len(missed)} of {len(found)} attacks are over the budget: {DELAY_MS:.0f} ms, {HOST_MIB:.0f} MiB")
    return 1 if missed else 0


def costs(names: list[str], *, announce: bool = False) -> list[Cost]:
    """The costs of these attacks; each that is over the budget is repeated on a fresh product."""
    found: list[Cost] = []
    with tempfile.TemporaryDirectory() as folder:
        site = _Site(Path(folder))
        try:
            for name in names:
                cost = site.cost(ATTACKS[name])
                for _ in range(REPEATS):
                    if cost.excess < 1:
                        break
                    site.stop()
                    again = site.cost(ATTACKS[name])
                    cost = min(cost, again, key=lambda each: each.excess)
                found.append(cost)
                if announce:
                    print(line(cost), flush=True)
        finally:
            site.stop()
    return found


def markdown(found: list[Cost]) -> str:
    """The section of `RESULTS.md`."""
    rows = []
    for cost in found:
        figures = [f"{cost.delay_ms:.0f} ms", f"{cost.host_mib:.0f} MiB", f"{cost.worker_mib:.0f} MiB"]
        rows.append([cost.attack, *figures, "kept" if cost.excess < 1 else "**missed**"])
    return f"""\
## What one attacker costs the others

While one host or upstream attacks, another session runs `1+1` without a pause: how much later than usual an answer of
its came at worst, and how far the host's memory rose, without workers and upstreams.
Budgets: {DELAY_MS:.0f} ms, {HOST_MIB:.0f} MiB, and {WORKER_MIB:.0f} MiB for the largest worker.

{table(["attack", "later", "host", "largest worker", ""], rows)}"""


def line(cost: Cost) -> str:
    figures = f"+{cost.delay_ms:7.0f} ms, host +{cost.host_mib:5.0f} MiB, worker {cost.worker_mib:4.0f} MiB"
    verdict = "kept  " if cost.excess < 1 else "MISSED"
    return f"{verdict} {cost.attack:<55} {figures}, {cost.answers:4} answers  {cost.fault}  | {cost.outcome[:90]!r}"


class _Site:
    """A product with two hostile upstreams, used for attack after attack while it is as small as it was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._web: subprocess.Popen[bytes] | None = None
        self._product: Product | None = None
        self._other: HostSession | None = None
        self._base_mib = 0.0
        self._number = 0

    def cost(self, attack: Attack) -> Cost:
        if self._product is not None and (
            not self._product.is_running or resident_mib(self._product.pid) > self._base_mib + _REUSED_WITHIN_MIB
        ):
            self.stop()
        try:
            return self._cost(attack)
        except NoAnswer:  # what the last attack left behind: a fresh product shows what this one does
            self.stop()
            return self._cost(attack)

    def _cost(self, attack: Attack) -> Cost:
        if self._product is None:
            self._start()
        assert self._product is not None
        assert self._other is not None
        with _attacker(attack, self._product) as attacker:
            self._other.disconnect()  # the product may have closed it, idle while the attacker got ready
            quiet = [_milliseconds(self._other) for _ in range(QUIET_RUNS)]
            with _Watch(self._product.pid, self._base_mib) as watch:
                times, fault = _while_attacked(self._other, attacker)
                is_over = attacker.poll() is not None
                outcome = cast("IO[str]", attacker.stdout).read().strip() if is_over else "no answer in time"
        if fault:
            self.stop()
        delay = max(times, default=_ATTACK_SECONDS * 1e3) - statistics.median(quiet)
        return Cost(attack.name, delay, watch.host_mib, watch.worker_mib, len(times), fault, outcome)

    def stop(self) -> None:
        if self._other is not None:
            self._other.disconnect()
        if self._product is not None:
            self._product.stop()
        if self._web is not None:
            self._web.kill()
            self._web.wait()
        self._product = self._other = self._web = None

    def _start(self) -> None:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        self._web = subprocess.Popen([sys.executable, HOSTILE, "http"], stdout=subprocess.PIPE)
        port = int(cast("IO[bytes]", self._web.stdout).readline())
        servers = {
            "plain": {"command": sys.executable, "args": [HOSTILE]},
            "web": {"url": f"http://127.0.0.1:{port}/mcp"},
        }
        self._product = Product(folder, servers, limits={"upstream_seconds": _UPSTREAM_SECONDS})
        self._warm_up(self._product.session())
        self._other = self._product.session(timeout_s=_ATTACK_SECONDS)
        self._base_mib = resident_mib(self._product.pid)

    def _warm_up(self, session: HostSession) -> None:
        """All that is loaded once is loaded, so that it is counted to no attack."""
        session.tool("list_dir", path="/servers")
        session.tool("search_tools", query="do an attack")
        for server in ("plain", "web"):
            deadline = time.monotonic() + 20
            while "done" not in (said := session.run(f"from servers.{server} import attack\nattack(n=1)")):
                if time.monotonic() > deadline:
                    raise NoAnswer(f"the upstream does not answer: {said}")
        for _ in range(10):
            _milliseconds(session)


class _Watch(threading.Thread):
    """The memory of a product's processes while it is attacked."""

    def __init__(self, pid: int, base_mib: float) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._base_mib = base_mib
        self._before = {child: resident_mib(child) for child in children(pid)}
        self._peaks: dict[int, float] = {}
        self._kinds: dict[int, str] = {}
        self._is_over = threading.Event()
        self.host_mib = self.worker_mib = 0.0

    def __enter__(self) -> _Watch:
        for pid in (self._pid, *self._before):
            with contextlib.suppress(OSError):
                reset_peak(pid)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()
        self._look_at_all()
        of_kind = {
            kind: [(pid, peak) for pid, peak in self._peaks.items() if self._kinds[pid] == kind]
            for kind in ("product", "helper", "worker")
        }
        before = {self._pid: self._base_mib, **self._before}
        for pid, peak in (*of_kind["product"], *of_kind["helper"]):
            self.host_mib += max(0.0, peak - before.get(pid, 0.0))
        self.worker_mib = max((peak for _, peak in of_kind["worker"]), default=0.0)

    def run(self) -> None:
        turn = 0
        while not self._is_over.wait(0.01):
            if resident_mib(self._pid) > KILLED_ABOVE_MIB:
                self._look_at_all()
                os.kill(self._pid, 9)
                return
            turn += 1
            if turn % 5 == 0:
                self._look_at_all()

    def _look_at_all(self) -> None:
        for pid in (self._pid, *children(self._pid)):
            kind = "product" if pid == self._pid else kind_of(pid)
            if not kind:
                continue
            self._kinds[pid] = kind
            self._peaks[pid] = max(self._peaks.get(pid, 0.0), peak_mib(pid))


@contextlib.contextmanager
def _attacker(attack: Attack, product: Product) -> Iterator[subprocess.Popen[str]]:
    """A process that is ready to attack, and does at a line on its standard input."""
    command = [sys.executable, "-m", "benchmarks.attacks", "--attacker", attack.name, str(product.port), product.token]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent)
    try:
        if cast("IO[str]", process.stdout).readline() != "ready\n":
            raise NoAnswer(f"the attacker did not get ready: {attack.name}")
        yield process
    finally:
        process.kill()
        process.communicate()


def _while_attacked(other: HostSession, attacker: subprocess.Popen[str]) -> tuple[list[float], str]:
    """The times of the other session's `1+1` until shortly after the attack, and what went wrong."""
    stdin = cast("IO[str]", attacker.stdin)
    stdin.write("\n")
    stdin.flush()
    times = []
    until = time.monotonic() + _ATTACK_SECONDS
    while time.monotonic() < until:
        if attacker.poll() is not None:
            until = min(until, time.monotonic() + _AFTER_SECONDS)
        started = time.perf_counter()
        try:
            times.append(_milliseconds(other))
        except NoAnswer as error:
            return [*times, (time.perf_counter() - started) * 1e3], str(error)
    return times, ""


def _milliseconds(session: HostSession) -> float:
    started = time.perf_counter()
    said = session.run("1+1")
    if said.split() != ["value:", "2"]:
        raise NoAnswer(said[:200])
    return (time.perf_counter() - started) * 1e3


def attack(name: str, port: int, token: str) -> None:
    """The attacker's process."""
    os.nice(5)
    attack = ATTACKS[name]
    session = HostSession(port, token, _ATTACK_SECONDS + _UPSTREAM_SECONDS)
    session.open()
    if attack.upstream:
        session.run(f"from servers.{attack.upstream} import attack\nattack(prepare={attack.how!r})")
    bodies = attack.bodies()
    print("ready", flush=True)
    sys.stdin.readline()
    outcomes = []

    def send(body: bytes, session: HostSession) -> None:
        try:
            result = session.post(body)
        except NoAnswer as error:
            outcomes.append(str(error))
        else:
            outcomes.append("\n".join(block.get("text", "") for block in result.get("content", [])))

    if attack.is_at_once:
        sessions = [session.another_connection() for _ in bodies]
        threads = [threading.Thread(target=send, args=pair) for pair in zip(bodies, sessions, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for body in bodies:
            send(body, session)
    print(f"{len(outcomes)}: {outcomes[-1][:300]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attacker"]:
        attack(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        sys.exit(0)
    sys.exit(main(sys.argv[1:]))
