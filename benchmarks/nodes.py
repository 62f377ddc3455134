"""What a sandbox node costs: `1 + 1` and a program with one call, on a node of this machine over those in a worker of
our own, alternating in one run."""

from __future__ import annotations

import statistics
from pathlib import Path

import anyio

from benchmarks.report import Row, milliseconds, rows_table
from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.remote.backend import RemoteBackend
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from codemode_server.sandbox.contract import Ending, Limits, Program, SandboxBackend, started
from codemode_server.sandbox.registry import SandboxSettings
from tests.sandbox.lab import Tools
from tests.sandbox.nodes import TOKEN, node

PROGRAMS = {
    "`1 + 1`": "1 + 1",
    "a program with one call": "from servers.github import list_issues\nlen(list_issues(repo='a'))",
}
_ROUNDS = 60


async def rows(certificate: Path | None = None) -> list[Row]:
    """With a certificate for localhost, which has its key in it, over TLS."""
    options = () if certificate is None else ("--certificate", certificate)
    async with node(*options, host="localhost" if certificate else "127.0.0.1") as one:
        ca = None if certificate is None else str(certificate)
        settings = SandboxSettings(backend="remote", nodes=(one.address,), node_token=TOKEN, node_ca=ca)
        local, remote = await started(WasmBackend()), await started(RemoteBackend(settings, None))
        made = []
        for what, code in PROGRAMS.items():
            times: dict[str, list[float]] = {local.name: [], remote.name: []}
            for _ in range(_ROUNDS):
                for backend in (local, remote):
                    times[backend.name].append(await milliseconds(lambda: _run(backend, code)))  # noqa: B023 - awaited here
            here, there = (statistics.median(times[backend.name]) for backend in (local, remote))
            measured = f"{there / here:.2f} × ({there:.1f} over {here:.1f} ms)"
            encrypted = "TLS" if certificate else "no TLS"
            where = f"on a sandbox node of this machine ({encrypted}), over a worker of our own"
            made.append(Row(f"{what} {where}", measured))
        await local.aclose()
        await remote.aclose()
        return made


async def _run(backend: SandboxBackend, code: str) -> None:
    outcome = await backend.run(Program(ExecutionId("x0"), code, Limits()), Tools())
    assert outcome.ending is Ending.RETURNED, outcome


if __name__ == "__main__":
    print(rows_table(anyio.run(rows)))
