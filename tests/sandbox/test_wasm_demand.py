"""Workers are kept after several programs at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.sandbox.backends.wasm import backend as backend_module
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from tests.sandbox.lab import Lab, Tools, pids_of, workers


@asynccontextmanager
async def tended(*, warm: int) -> AsyncIterator[WasmBackend]:
    async with workers(warm=warm) as backend, anyio.create_task_group() as tasks:
        tasks.start_soon(backend.tend)
        await anyio.wait_all_tasks_blocked()
        yield backend
        tasks.cancel_scope.cancel()


async def two_at_once(lab: Lab) -> None:
    """Each ends once both have called."""
    code, tools = "from servers.github import meet\nmeet(n=1, company=2)", Tools()
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lab.value, code, tools)


async def test_after_two_programs_at_once_two_workers_are_kept_and_used_again(tmp_path: Path) -> None:
    async with tended(warm=1) as backend:
        lab = Lab(backend, tmp_path)
        await two_at_once(lab)
        kept = pids_of(backend)
        assert len(kept) == 2
        await two_at_once(lab)
        assert pids_of(backend) == kept


async def test_workers_end_when_two_programs_at_once_were_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tended(warm=1) as backend:
        await two_at_once(Lab(backend, tmp_path))
        monkeypatch.setattr(backend_module, "RECENT_SECONDS", 0.0)
        backend._is_work_left.set()
        with anyio.fail_after(30):
            while len(pids_of(backend)) > 1:
                await anyio.sleep(0.05)
