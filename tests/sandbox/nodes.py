"""Real nodes for tests, each a process of its own, and what their connections look like."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from tests.processes import children

TOKEN = "a-token-of-the-tests-0123456789"


@dataclass(frozen=True, slots=True)
class RunningNode:
    process: Process
    port: int
    host: str = "127.0.0.1"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def workers(self) -> set[int]:
        return set(children(self.process.pid))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@asynccontextmanager
async def node(*options: str | Path, token: str = TOKEN, host: str = "127.0.0.1") -> AsyncIterator[RunningNode]:
    """A node in the WASM sandbox, on a port of its own."""
    command = [sys.executable, "-m", "codemode_server", "node", "--port", "0", "--backend", "wasm", *map(str, options)]
    environment = {**os.environ, "CODEMODE_NODE_TOKEN": token}
    process = await anyio.open_process(command, env=environment, stdout=None, start_new_session=True)
    try:
        assert process.stderr is not None
        said = b""
        with anyio.fail_after(60):
            while b" programs, in " not in said:
                said += await process.stderr.receive()
        port = int(said.rpartition(b", port ")[2].partition(b":")[0])
        yield RunningNode(process, port, host)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.aclose()
