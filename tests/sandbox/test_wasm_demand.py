"""Workers are kept after several programs at once, and one is left to other sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.backends.wasm import backend as backend_module
from codemode_server.sandbox.backends.wasm import demand as demand_module
from codemode_server.sandbox.backends.wasm.backend import WasmBackend
from codemode_server.sandbox.backends.wasm.demand import Demand
from codemode_server.sandbox.contract import Limits, Program
from tests.sandbox.lab import Lab, Tools


def program(session: str) -> Program:
    return Program(ExecutionId("x0"), "", Limits(), session_id=session)


async def test_an_idle_worker_is_left_to_others_by_a_session_with_several_programs() -> None:
    demand = Demand()
    with demand.counted(program("other")):
        pass
    with demand.counted(program("one")):
        assert demand.reserved(program("one")) == 0
        with demand.counted(program("one")):
            assert demand.reserved(program("one")) == 1


@asynccontextmanager
async def tended(*, warm: int) -> AsyncIterator[WasmBackend]:
    async with WasmBackend(warm=warm) as backend, anyio.create_task_group() as tasks:
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
        kept = backend.worker_pids
        assert len(kept) == 2
        await two_at_once(lab)
        assert backend.worker_pids == kept


async def test_they_end_when_it_was_long_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with tended(warm=1) as backend:
        await two_at_once(Lab(backend, tmp_path))
        monkeypatch.setattr(demand_module, "RECENT_SECONDS", 0.0)
        monkeypatch.setattr(backend_module, "RECENT_SECONDS", 0.0)
        backend._is_work_left.set()
        with anyio.fail_after(30):
            while len(backend.worker_pids) > 1:
                await anyio.sleep(0.05)
