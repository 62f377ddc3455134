"""Runs many programs on one product, then reports what it still uses: memory, descriptors, processes, files.

    make bench-soak ARGS="--programs 2000"

Three hosts over HTTP open and close sessions and send programs of every kind: calls over stdio and HTTP, errors,
limits, cancelled requests, crashing upstreams. After each round the product rests and is measured. The last figures may
exceed those of the first round by `BOUNDS` at most; a higher figure or a wrong answer exits with 1. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from benchmarks.product import UPSTREAM, HostSession, NoAnswer, Product, children, resident_mib, stdio_upstream
from tests.answering import free_port

HOSTS = 3
MAX_FAULTS = 20
PROGRAMS_PER_SESSION = 25
SETTLE_SECONDS = 20.0
MIB = 2**20

Sample = dict[str, float]
"""Figures of a product at rest, by name; sizes are MiB."""

BOUNDS = {
    "memory": 256,  # programs of three hosts may print 16 MB each at once, and the allocator keeps that room
    "memory of children": 96,
    "descriptors": 8,  # idle connections to the upstream over HTTP are one to three more or fewer
    "threads": 0,
    "processes": 0,
    "zombies": 0,
    "temporary files": 2,  # the folder of a program that has just ended is removed a moment later
    "state on disk": 96,
}
"""How far each figure may be above that of the first round."""


@dataclass(frozen=True)
class Step:
    """A program, and a text that has to be in its answer."""

    code: str
    expected: str
    timeout: float | None = None


STEPS = (
    Step("from servers.stdio import echo\n[echo(number=n)['number'] for n in range(40)][-1]", "39"),
    Step("from servers.web import echo\n[echo(number=n)['number'] for n in range(10)][-1]", "9"),
    Step(
        "import asyncio\nfrom servers.stdio import echo\nfrom servers.web import echo as other\n"
        "len(await asyncio.gather(*[echo(number=n) for n in range(20)], *[other(number=n) for n in range(10)]))",
        "30",
    ),
    Step("from servers.stdio import rows\nlen([r for r in rows(number=500) if r['id'] % 2])", "250"),
    Step("'v' * 50_000", "is stored: from codemode import results"),
    Step("from servers.stdio import fail\nfail(number=3)", "Error executing tool fail"),
    Step("{}['missing']", "KeyError"),
    Step("from servers.stdio import ecko\necko(number=1)", "echo"),
    Step("while True: pass", "stopped after 0.3 s", timeout=0.3),
    Step("x = 'x' * 500_000_000", "MiB of memory"),
    Step("while True: print('x' * 1_000)", "printed more than"),
    Step("for n in range(20): open(f'/tmp/f{n}', 'w').write('x')\nimport os\nlen(os.listdir('/tmp'))", "20"),
    Step("import os\nos._exit(0)", "ended under the program"),
    Step("from codemode import search_tools\nlen(search_tools('give the number back')) > 0", "true"),
)


@dataclass
class Soak:
    """One product with its upstreams, used and measured in rounds."""

    folder: Path
    programs: int = 0
    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _turns: count[int] = field(default_factory=count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, programs: int, rounds: int) -> None:
        """Run at least `programs` programs, measured after each of `rounds` rounds."""
        port = free_port()
        web = subprocess.Popen([sys.executable, UPSTREAM, "--port", str(port)])
        servers = {
            "stdio": stdio_upstream(),
            "fragile": stdio_upstream(),
            "web": {"url": f"http://127.0.0.1:{port}/mcp"},
        }
        product = Product(self.folder, servers, limits={"output_bytes": 200_000})
        try:
            for number in range(1, rounds + 1):
                hosts = [
                    threading.Thread(target=self._host, args=(product, programs * number // rounds))
                    for _ in range(HOSTS)
                ]
                for host in hosts:
                    host.start()
                for host in hosts:
                    host.join()
                self.samples.append(self._sample_at_rest(product))
        finally:
            product.stop()
            web.kill()
            web.wait()

    @property
    def excesses(self) -> list[str]:
        """The figures of the last round that exceed their bound."""
        return excesses(self.samples[0], self.samples[-1]) if self.samples else ["nothing was measured"]

    def _host(self, product: Product, programs: int) -> None:
        while self.programs < programs and len(self.faults) < MAX_FAULTS:
            try:
                session = product.session()
                for turn in islice(self._turns, PROGRAMS_PER_SESSION):
                    step = STEPS[turn % len(STEPS)]
                    answer = session.run(step.code, **({} if step.timeout is None else {"timeout": step.timeout}))
                    with self._lock:
                        self.programs += 1
                        if step.expected not in answer:
                            self.faults.append(f"{step.code[:60]!r}: {answer[:300]}")
                session.run("from servers.fragile import crash\ncrash()")
                self._cancel(session)
                session.close()
            except NoAnswer as error:
                self.faults.append(f"no answer: {error}")

    def _cancel(self, session: HostSession) -> None:
        """Close the connection in the middle of a call, as a host does that is killed."""
        params = {"name": "execute_code", "arguments": {"code": "from servers.stdio import slow\nslow(seconds=1)"}}
        body = json.dumps({"jsonrpc": "2.0", "id": "cancelled", "method": "tools/call", "params": params}).encode()
        other = session.another_connection()
        asking = threading.Thread(target=_post, args=(other, body))
        asking.start()
        time.sleep(0.1)
        other.break_connection()
        asking.join()
        other.disconnect()

    def _sample_at_rest(self, product: Product) -> Sample:
        """The figures once they are within the bounds, or after `SETTLE_SECONDS`."""
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            time.sleep(0.5)
            try:
                sample = measure(product.pid, product.temporary, self.folder / "state")
            except (FileNotFoundError, ProcessLookupError):  # a file or process that went away meanwhile
                continue
            if time.monotonic() > until or (self.samples and not excesses(self.samples[0], sample)):
                return sample


def excesses(first: Sample, last: Sample) -> list[str]:
    return [
        f"{figure}: {last[figure]:g}, at most {first[figure] + more:g}"
        for figure, more in BOUNDS.items()
        if last[figure] > first[figure] + more
    ]


def measure(pid: int, temporary: Path, state: Path) -> Sample:
    below = children(pid)
    return {
        "memory": resident_mib(pid),
        "memory of children": sum(map(resident_mib, below)),
        "descriptors": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "processes": len(below),
        "zombies": sum(") Z " in Path(f"/proc/{child}/stat").read_text() for child in below),
        "temporary files": sum(1 for _ in temporary.rglob("*")),
        "state on disk": sum(path.stat().st_size for path in state.rglob("*") if path.is_file()) / MIB,
    }


def _post(session: HostSession, body: bytes) -> None:
    try:
        session.post(body)
    except NoAnswer:
        return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        soak.run(options.programs, options.rounds)
    for figure in BOUNDS:
        print(f"{figure:<20} first {soak.samples[0][figure]:8.4g}, last {soak.samples[-1][figure]:8.4g}")
    for text in [*soak.excesses, *soak.faults]:
        print(f"FAILED: {text}")
    return 1 if soak.excesses or soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
