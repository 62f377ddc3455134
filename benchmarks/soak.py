"""Many programs and calls on one product, and then what it still uses: memory, descriptors, processes, files.

    python -m benchmarks.soak [--calls 20000] [--programs 2000] [--hours 0]

Three hosts over HTTP open and close sessions and send programs of every kind: calls over stdio and over HTTP, errors,
timeouts, limits, requests that are cancelled, files in the workspace, upstreams that crash, searches, and edits of the
configuration. Between rounds all of them pause and the product is measured; its last figures are compared with those
after the first round. Each bound is in `BOUNDS`; exceeding one, or a wrong answer, exits with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.product import HERE, HostSession, NoAnswer, Product, children, is_zombie, kind_of, resident_mib, threads

UPSTREAM = str(HERE / "soak_upstream.py")
HOSTS = 3
ROUNDS = 20
MAX_FAULTS = 20
"""More end the soak."""
TERMINATED = 128 + 15
"""The product's exit code at SIGTERM."""
_STEPS_OF_A_SESSION = 25
_SETTLE_SECONDS = 20.0
_RESTART_SECONDS = 10.0
_MIB = 2**20


@dataclass(frozen=True)
class Sample:
    """What a product uses while nothing runs. Sizes are MiB."""

    memory: float = 0.0
    """Resident memory of its process."""
    worker_memory: float = 0.0
    """Resident memory of the largest sandbox worker."""
    helper_memory: float = 0.0
    """Resident memory of its other processes, upstreams left out."""
    descriptors: int = 0
    threads: int = 0
    workers: int = 0
    upstreams: int = 0
    helpers: int = 0
    zombies: int = 0
    temporary: int = 0
    """Files and folders in its temporary folder."""
    artifacts: float = 0.0
    """Kept results of programs."""
    workspace: float = 0.0
    database: float = 0.0
    log: float = 0.0


@dataclass(frozen=True)
class Bound:
    """How far one figure of the last sample may be above the one after the warm-up."""

    figure: str
    more: float
    per_thousand_calls: float = 0.0

    def allowed(self, warm: Sample, calls: int) -> float:
        return float(getattr(warm, self.figure)) + self.more + self.per_thousand_calls * calls / 1_000


BOUNDS = (
    Bound("memory", 48),  # an output of 16 MB may be alive at the moment of the sample
    Bound("worker_memory", 32),
    Bound("helper_memory", 64),
    Bound("descriptors", 8),  # idle connections to the upstream over HTTP are one to three more or fewer
    Bound("threads", 0),
    Bound("workers", 0),
    Bound("upstreams", 0),
    Bound("helpers", 0),
    Bound("zombies", 0),
    Bound("temporary", 0),
    Bound("artifacts", 64),
    Bound("workspace", 1),
    Bound("database", 4, per_thousand_calls=1),
    Bound("log", 4),
)


@dataclass(frozen=True)
class SoakPlan:
    """How much is done; the time goes on after that."""

    calls: int
    programs: int
    seconds: float = 0.0
    rounds: int = ROUNDS


@dataclass
class Found:
    """The outcome of a soak."""

    calls: int = 0
    programs: int = 0
    seconds: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    """After each round; the first is after the warm-up."""
    faults: list[str] = field(default_factory=list)
    """Answers that were not what they should be, and what was left after the end."""
    steps: Counter[str] = field(default_factory=Counter)

    @property
    def exceeded_bounds(self) -> list[str]:
        return excess(self.samples[0], self.samples[-1], self.calls) if self.samples else ["nothing was measured"]

    @property
    def is_well(self) -> bool:
        return not self.faults and not self.exceeded_bounds


def excess(warm: Sample, last: Sample, calls: int) -> list[str]:
    """The figures that exceed their bound."""
    return [
        f"{bound.figure}: {getattr(last, bound.figure):g}, at most {bound.allowed(warm, calls):g}"
        for bound in BOUNDS
        if getattr(last, bound.figure) > bound.allowed(warm, calls)
    ]


def sample(pid: int, temporary: Path, state: Path) -> Sample:
    """What the product of that process uses now."""
    by_kind: dict[str, list[int]] = {"worker": [], "upstream": [], "helper": []}
    below = children(pid)
    for child in below:
        by_kind.setdefault(kind_of(child), []).append(child)
    return Sample(
        memory=resident_mib(pid),
        worker_memory=max(map(resident_mib, by_kind["worker"]), default=0.0),
        helper_memory=sum(map(resident_mib, by_kind["helper"])),
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=threads(pid),
        workers=len(by_kind["worker"]),
        upstreams=len(by_kind["upstream"]),
        helpers=len(by_kind["helper"]),
        zombies=sum(map(is_zombie, below)),
        temporary=sum(1 for _ in temporary.rglob("*")),
        artifacts=_mib(state / "kept"),
        workspace=_mib(state / "workspaces"),
        database=sum(path.stat().st_size for path in state.glob("*.db*")) / _MIB,
        log=_mib(state / "logs"),
    )


def _mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / _MIB


# --- what the hosts do ---


@dataclass(frozen=True)
class Step:
    """One program, or another request; `expected` has to be in the answer."""

    name: str
    code: str = ""
    expected: str = ""
    calls: int = 0
    timeout: float | None = None
    weight: int = 1


STEPS = (
    Step(
        "calls over stdio",
        "from servers.stdio import echo\n[echo(number=n)['number'] for n in range(40)][-1]",
        "39",
        40,
        weight=4,
    ),
    Step(
        "calls over HTTP",
        "from servers.web import echo\n[echo(number=n)['number'] for n in range(10)][-1]",
        "9",
        10,
        weight=3,
    ),
    Step(
        "calls at once",
        "import asyncio\nfrom servers.stdio import echo\nfrom servers.web import echo as other\n"
        "len(await asyncio.gather(*[echo(number=n) for n in range(20)], *[other(number=n) for n in range(10)]))",
        "30",
        30,
        weight=3,
    ),
    Step("rows", "from servers.stdio import rows\nlen([r for r in rows(number=500) if r['id'] % 2])", "250", 1),
    Step("a value that is kept", "'v' * 50_000", "is stored: from codemode import results"),
    Step("no call", "sum(range(1000))", "499500", weight=2),
    Step("a call that fails", "from servers.stdio import fail\nfail(number=3)", "Error executing tool fail", 1),
    Step("a call that fails over HTTP", "from servers.web import fail\nfail(number=3)", "Error executing tool fail", 1),
    Step("a program that fails", "{}['missing']", "KeyError"),
    Step("a program that is refused", "from servers.stdio import ecko\necko(number=1)", "echo"),
    Step("a program with a syntax error", "x = [1, 2\nprint(x)", "SyntaxError"),
    Step("a timeout", "while True: pass", "stopped after 0.3 s", timeout=0.3),
    Step("a timeout of a call", "from servers.patient import slow\nslow(seconds=30)", "neither answered", 1),
    Step("too much memory", "x = 'x' * 500_000_000", "MiB of memory"),
    Step("too much printed", "while True: print('x' * 1_000)", "printed more than"),
    Step(
        "files",
        "import os, pathlib\np = pathlib.Path(f'/workspace/{os.urandom(8).hex()}')\np.write_text('x' * 10_000)\n"
        "n = len(p.read_text())\np.unlink()\n[n, p.exists()]",
        "[10000,false]",
    ),
    Step(
        "temporary files",
        "import os\nleft = os.listdir('/tmp')\nfor n in range(20): open(f'/tmp/f{n}', 'w').write('x')\n"
        "[len(left), len(os.listdir('/tmp'))]",
        "[0,20]",
    ),
    Step("an exit past everything", "import os\nos._exit(0)", "ended under the program"),
    Step(
        "a shown file",
        "from codemode import show\nshow(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(500), name='a.png')\n'shown'",
        "shown",
    ),
    Step(
        "a search in a program",
        "from codemode import search_tools\nlen(search_tools('give the number back')) > 0",
        "true",
    ),
)
CALLS = next(step for step in STEPS if step.name == "calls at once")
QUESTIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("list_dir", {"path": "/servers/stdio"}, "echo"),
    ("read_tool", {"path": "/servers/web/rows.py"}, "number"),
    ("search_tools", {"query": "give the number back"}, "echo"),
    ("search_tools", {"query": "what is not there at all"}, "nothing fits"),
)
CYCLE = [step for step in STEPS for _ in range(step.weight)]


class Hosts:
    """The hosts of one soak, and the counts of what they did."""

    def __init__(self, product: Product, found: Found) -> None:
        self._product = product
        self._found = found
        self._lock = threading.Lock()
        self._numbers = count()
        self._sessions = count()

    def work(self, calls: int, programs: int) -> None:
        """Until there were so many calls and programs in all."""
        hosts = [threading.Thread(target=self._host, args=(calls, programs)) for _ in range(HOSTS)]
        for host in hosts:
            host.start()
        for host in hosts:
            host.join()

    def _host(self, calls: int, programs: int) -> None:
        while not self._is_enough(calls, programs):
            try:
                self._session(calls, programs)
            except NoAnswer as error:
                self._fault(f"no answer: {error}")

    def _is_enough(self, calls: int, programs: int) -> bool:
        found = self._found
        return len(found.faults) > MAX_FAULTS or (found.calls >= calls and found.programs >= programs)

    def _session(self, calls: int, programs: int) -> None:
        number = next(self._sessions)
        session = self._product.session()
        for _ in range(_STEPS_OF_A_SESSION):
            if self._is_enough(calls, programs):
                break
            # Calls that are still missing when there were enough programs are made many at once.
            step = CYCLE[next(self._numbers) % len(CYCLE)] if self._found.programs < programs else CALLS
            self._program(session, step)
        self._ask(session)
        self._read_back(session)
        if number % 3 == 0:
            self._cancel(session, number)
        if number % 4 == 1:
            self._crash(session)
        if number % 5 == 2:
            session.disconnect()  # as a host does that is killed
        else:
            session.close()

    def _program(self, session: HostSession, step: Step) -> None:
        arguments = {} if step.timeout is None else {"timeout": step.timeout}
        answer = session.run(step.code, **arguments)
        with self._lock:
            self._found.programs += 1
            self._found.calls += step.calls
            self._found.steps[step.name] += 1
        if step.expected not in answer:
            self._fault(f"{step.name}: {answer[:300]}")

    def _ask(self, session: HostSession) -> None:
        """The other three meta-tools."""
        for tool, arguments, expected in QUESTIONS:
            answer = session.tool(tool, **arguments)
            if expected not in answer:
                self._fault(f"{tool}: {answer[:300]}")

    def _read_back(self, session: HostSession) -> None:
        """Read the value of a program in the next one of the session."""
        session.run("'v' * 50_000")
        answer = session.run("from codemode import results\nresults.last.count('v')")
        if "50000" not in answer:
            self._fault(f"the result of the program before: {answer[:300]}")

    def _cancel(self, session: HostSession, number: int) -> None:
        """Cancel a program in the middle of a call: by a notification, or by closing the connection."""
        arguments = {"code": "from servers.stdio import slow\nslow(seconds=1)", "timeout": 2}
        params = {"name": "execute_code", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": f"cancel {number}", "method": "tools/call", "params": params}
        other = session.another_connection()
        asking = threading.Thread(target=_without_answer, args=(other, json.dumps(body).encode()))
        asking.start()
        time.sleep(0.1)
        if number % 2:
            other.break_connection()
        else:
            cancel = {"requestId": f"cancel {number}"}
            notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}
            session.post(json.dumps(notice).encode())
        asking.join()
        other.disconnect()

    def _crash(self, session: HostSession) -> None:
        """End an upstream's process, and call it until it has been started again."""
        answer = session.run("from servers.fragile import crash\ncrash()")
        if "ToolError" not in answer:  # another host may have crashed it just before, so which one is open
            self._fault(f"a call that crashes its upstream: {answer[:300]}")
        until = time.monotonic() + _RESTART_SECONDS
        while '"number":5' not in (answer := session.run("from servers.fragile import echo\necho(number=5)")):
            if time.monotonic() > until:
                self._fault(f"an upstream that crashed: {answer[:300]}")
                return
            time.sleep(0.1)

    def _fault(self, text: str) -> None:
        with self._lock:
            self._found.faults.append(text)


def _without_answer(session: HostSession, body: bytes) -> None:
    with contextlib.suppress(NoAnswer):
        session.post(body)


class Soak:
    """A product with its upstreams, used and measured in rounds."""

    def __init__(self, folder: Path) -> None:
        self.found = Found()
        self._state = folder / "state"
        self._config = folder / "upstream.yaml"
        self._product = Product(self._config, folder)
        self._hosts = Hosts(self._product, self.found)
        self._web: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._web_port = free.getsockname()[1]

    def run(self, plan: SoakPlan, tell: Callable[[str], None] = lambda _: None) -> Found:
        started = time.monotonic()
        try:
            self._start()
            for number in count(1):
                self._edit(number)
                self._hosts.work(plan.calls * number // plan.rounds, plan.programs * number // plan.rounds)
                self.found.samples.append(self._settled())
                self.found.seconds = time.monotonic() - started
                tell(
                    f"round {number}, {self.found.seconds:.0f} s: {self.found.programs:,} programs, "
                    f"{self.found.calls:,} calls, {self.found.samples[-1].memory:.0f} MiB"
                )
                has_time = self.found.seconds < plan.seconds
                if len(self.found.faults) > MAX_FAULTS or (number >= plan.rounds and not has_time):
                    break
        finally:
            self._stop()
        return self.found

    def _start(self) -> None:
        self._web = subprocess.Popen([sys.executable, UPSTREAM, str(self._web_port)])
        self._write(0)
        self._product.start()
        session = self._product.session()
        for server in ("stdio", "web", "fragile", "patient"):
            until = time.monotonic() + _RESTART_SECONDS
            while '"number":5' not in (answer := session.run(f"from servers.{server} import echo\necho(number=5)")):
                if time.monotonic() > until:
                    raise NoAnswer(f"the upstream {server} does not answer: {answer}")
                time.sleep(0.1)
        session.close()

    def _write(self, edit: int) -> None:
        command = {"command": sys.executable, "args": [UPSTREAM]}
        settings = {
            "servers": {
                "stdio": {**command, "description": f"Edit {edit}."},
                "fragile": {**command, "env": {"SOAK_EDIT": str(edit)}},
                "patient": {**command, "timeout": 2},
                "web": {"url": f"http://127.0.0.1:{self._web_port}/mcp"},
            },
            "limits": {"output_bytes": 200_000, "upstream_seconds": 60},
            "state": {"dir": str(self._state)},
            "search": {"ranker": "static"},
        }
        self._config.write_text(json.dumps(settings))

    def _edit(self, number: int) -> None:
        """Edit the configuration, and wait until it is taken over."""
        self._write(number)
        session = self._product.session()
        until = time.monotonic() + _RESTART_SECONDS
        while f"Edit {number}." not in session.tool("list_dir", path="/servers"):
            if time.monotonic() > until:
                self.found.faults.append(f"edit {number} of the configuration was not taken over")
                break
            time.sleep(0.1)
        session.close()

    def _settled(self) -> Sample:
        """What is used once nothing runs any more: as soon as it grows no more, or is within the bounds; else after a
        while."""
        until = time.monotonic() + _SETTLE_SECONDS
        before = Sample(descriptors=-1)
        while True:
            time.sleep(0.5)
            now = sample(self._product.pid, self._product.temporary, self._state)
            first = self.found.samples[0] if self.found.samples else before
            if not excess(first, now, self.found.calls) or time.monotonic() > until:
                return now
            before = now

    def _stop(self) -> None:
        """End the product and look for what it left."""
        before = {pid: began(pid) for pid in children(self._product.pid)} if self._product.is_running else {}
        if self._product.is_running:
            code = self._product.stop()
            if code != TERMINATED:
                self.found.faults.append(f"the product ended with {code}, not {TERMINATED}")
            self.found.faults += left_behind(before, self._product.temporary, self._state)
        if self._web is not None:
            self._web.kill()
            self._web.wait()


def left_behind(
    before: dict[int, str], temporary: Path, state: Path, patience_s: float = _RESTART_SECONDS
) -> list[str]:
    """What is still there of a product that has ended: processes, by pid and when they began, and files."""
    until = time.monotonic() + patience_s
    while (alive := [pid for pid, start in before.items() if start and began(pid) == start]) and (
        time.monotonic() < until
    ):
        time.sleep(0.1)
    files = [*temporary.rglob("*"), *(state / "kept").rglob("*")]
    return [f"process {pid} is left" for pid in alive] + [f"{path} is left" for path in files]


def began(pid: int) -> str:
    """When a process began, which tells it from a later one with its number; empty if it is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def table(found: Found) -> str:
    warm = found.samples[0]
    rows: list[tuple[str, ...]] = [("", "warm", "highest", "end", "at most", "")]
    for bound in BOUNDS:
        values = [float(getattr(each, bound.figure)) for each in found.samples]
        allowed = bound.allowed(warm, found.calls)
        verdict = "ok" if values[-1] <= allowed else "OVER"
        rows.append(
            (
                bound.figure.replace("_", " "),
                *(f"{n:.4g}" for n in (values[0], max(values), values[-1], allowed)),
                verdict,
            )
        )
    return "\n".join("{:<16}{:>9}{:>9}{:>9}{:>9}  {}".format(*row) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--hours", type=float, default=0.0, help="go on for so long")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plan = SoakPlan(parsed.calls, parsed.programs, parsed.hours * 3_600)
        found = Soak(Path(folder)).run(plan, lambda text: print(text, flush=True))
    print(
        f"{found.programs:,} programs with {found.calls:,} calls in {found.seconds / 60:.1f} minutes; MiB and numbers:"
    )
    print(table(found))
    for text in [*found.exceeded_bounds, *found.faults]:
        print(f"NOT AS IT SHOULD BE: {text}")
    return 0 if found.is_well else 1


if __name__ == "__main__":
    sys.exit(main())
