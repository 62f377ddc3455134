"""The figures of the microVM backend: boot, execution from the pool, a call, 10 MB of rows. Writes `MICROVM.md`.

Run where microVMs boot: `make bench-vm`. Where the processor is emulated, as `MICROVM.md` then says, a figure tells
nothing by itself; beside it stands how many starts of Python in the same machine it is worth.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from codemode_server import __version__
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.microvm import MicrovmSettings
from codemode_server.sandbox.backends.microvm.backend import MicrovmBackend
from codemode_server.sandbox.contract import Ending, Limits, Program, Reply
from codemode_server.settings import LimitSettings

RESULTS = Path(os.environ.get("CODEMODE_VM_OUT") or Path(__file__).parent) / "MICROVM.md"
ROW = {"id": 1, "status": "pending", "amount": 13.37, "customer": "c1@example.com", "note": "x" * 900}
ROWS = 10 * 2**20 // 1_000
CALLS = 50


class Tools:
    """A host API with two tools that answer at once, so that only the round trip is measured."""

    async def call(self, server: str, tool: str, arguments: dict[str, Any], *, raw: bool = False) -> Reply:
        return Reply([ROW] * ROWS if tool == "rows" else arguments)

    async def read(self, server: str, uri: str, arguments: dict[str, Any]) -> Reply:
        raise NotImplementedError(uri)

    async def resources(self, server: str) -> list[Any]:
        raise NotImplementedError(server)

    async def load(self, module: str) -> dict[str, Any]:
        raise NotImplementedError(module)

    async def search(
        self, query: str, detail_level: str, server: str | None, limit: int, effect: str | None
    ) -> list[Any]:
        raise NotImplementedError(query)

    async def save_skill(self, name: str, text: str) -> str:
        raise NotImplementedError(name)

    async def show(self, data: bytes, mime_type: str | None, name: str | None) -> str:
        raise NotImplementedError(name)

    async def artifact(self, name: str | None, start: int = 0) -> Reply:
        raise NotImplementedError(name)


async def measure() -> list[tuple[str, float]]:
    """What was measured, in milliseconds."""
    figures = [("`python3 -c pass`, the unit", _python_start())]
    settings = MicrovmSettings(image=os.environ["CODEMODE_VM_IMAGE"], warm=2)
    backend = MicrovmBackend(settings, LimitSettings(), None)

    async def run(code: str, session: str) -> tuple[Any, float]:
        began = time.perf_counter()
        program = Program(ExecutionId("x0"), code, Limits(wall_seconds=600), session_id=session)
        outcome = await backend.run(program, Tools())
        assert outcome.ending is Ending.RETURNED, outcome
        return outcome.value, (time.perf_counter() - began) * 1e3

    try:
        await backend.start()
        figures.append(("boot of a microVM, until its runner waits for a program", backend.boot_seconds * 1e3))
        await backend.pool.fill()
        figures.append(
            (
                "`1+1`, first program of a session, from the pool, p50 of 2",
                _middle([(await run("1+1", s))[1] for s in "ab"]),
            )
        )
        figures.append(
            ("`1+1`, in the session's microVM, p50 of 20", _middle([(await run("1+1", "a"))[1] for _ in range(20)]))
        )
        code = (
            "import time, codemode\ntimes = []\n"
            f"for n in range({CALLS}):\n"
            "    t = time.perf_counter()\n    codemode.call('bench', 'echo', {'n': n})\n"
            "    times.append(time.perf_counter() - t)\n"
            "sorted(times)[len(times) // 2] * 1000"
        )
        figures.append((f"a call and its answer, p50 of {CALLS}", (await run(code, "a"))[0]))
        code = "import codemode\nlen(codemode.call('bench', 'rows'))"
        figures.append((f"{ROWS:,} rows, 10 MB of JSON, to the program", (await run(code, "a"))[1]))
    finally:
        await backend.aclose()
    return figures


def _middle(times: list[float]) -> float:
    return statistics.median(times)


def _python_start(runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


def main() -> None:
    where = os.environ.get("CODEMODE_VM", "hardware")
    figures = anyio.run(measure)
    unit = figures[0][1]
    lines = [
        "# Results of the microVM backend",
        "",
        f"`make bench-vm` of codemode-server {__version__} on {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores: "
        + ("**emulated processor**, so no figure is one of real hardware." if where == "emulated" else "hardware."),
        "",
        "| what | ms | starts of Python in the same machine |",
        "|---|---|---|",
    ]
    lines += [f"| {what} | {figure:,.1f} | {figure / unit:.2f} |" for what, figure in figures]
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
