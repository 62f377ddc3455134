"""Which microVM a program gets, by a pool of machines that are none: who shares with whom, and when one is ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codemode_server.domain.errors import SandboxUnavailable
from codemode_server.sandbox.backends.microvm import pool as pool_module
from codemode_server.sandbox.backends.microvm.pool import Pool
from tests.waiting import until

HERE, THERE = Path("/workspaces/here"), Path("/workspaces/there")
IDLE_S, AGE_S = 900.0, 7_200.0


class FakeMachine:
    """Ages as the test says."""

    def __init__(self, workspace: Path | None) -> None:
        self.workspace = workspace
        self.born_at = self.used_at = time.monotonic()
        self.is_alive = True
        self.kills = 0

    @property
    def is_gone(self) -> bool:
        return self.kills > 0

    def let_pass(self, seconds: float) -> None:
        self.born_at -= seconds
        self.used_at -= seconds

    async def kill(self, seconds: float = 0.0) -> None:
        await anyio.lowlevel.checkpoint()
        self.is_alive = False
        self.kills += 1


class Lot:
    """Where the machines come from; each boot waits until it may go on."""

    def __init__(self) -> None:
        self.begun = 0
        self.machines: list[FakeMachine] = []
        self.may_boot = anyio.Event()
        self.may_boot.set()
        self.fails = False

    async def boot(self, workspace: Path | None) -> Any:
        self.begun += 1
        await self.may_boot.wait()
        if self.fails:
            raise SandboxUnavailable("no machine to be had")
        self.machines.append(FakeMachine(workspace))
        return self.machines[-1]

    @property
    def alive(self) -> list[FakeMachine]:
        return [machine for machine in self.machines if machine.is_alive]


@pytest.fixture
def lot() -> Lot:
    return Lot()


@asynccontextmanager
async def tended(lot: Lot, size: int = 1) -> AsyncIterator[Pool]:
    """A pool that is looked after all the time."""
    pool = Pool(lot.boot, HERE, size, IDLE_S, AGE_S)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.tend)
            yield pool
            tasks.cancel_scope.cancel()
        await pool.aclose()
    assert lot.alive == []


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(pool_module, "_RETRY_SECONDS", 0.02)


async def test_a_session_gets_its_own_machine_again_and_no_other_session_does(lot: Lot) -> None:
    async with tended(lot) as pool:
        ada = await pool.take("ada", HERE)
        await pool.give_back(ada, "ada")
        bob = await pool.take("bob", HERE)
        assert bob is not ada
        assert await pool.take("ada", HERE) is ada


@pytest.mark.parametrize("seconds", [IDLE_S + 1, AGE_S + 1])
async def test_a_kept_machine_that_is_idle_or_old_is_ended_and_not_given_again(lot: Lot, seconds: float) -> None:
    async with tended(lot) as pool:
        machine: Any = await pool.take("ada", HERE)
        await pool.give_back(machine, "ada")
        machine.let_pass(seconds)
        await until(lambda: not machine.is_alive)
        assert await pool.take("ada", HERE) is not machine


@pytest.mark.parametrize("where", ["spare", "kept"])
async def test_a_machine_that_died_is_passed_over(lot: Lot, where: str) -> None:
    async with tended(lot) as pool:
        machine: Any = await pool.take("ada", HERE)
        if where == "kept":
            await pool.give_back(machine, "ada")
        else:
            await until(lambda: pool.spare)
            machine = pool.spare[0]
        machine.is_alive = False
        assert await pool.take("ada", HERE) is not machine
        await until(lambda: machine.is_gone)


async def test_a_session_that_has_no_other_program_keeps_no_machine(lot: Lot) -> None:
    async with tended(lot) as pool:
        machine = await pool.take("once", HERE)
        await pool.give_back(machine, None)
        assert not machine.is_alive
        assert pool.of_sessions == {}


async def test_of_too_many_sessions_the_one_that_ran_longest_ago_loses_its_machine(lot: Lot) -> None:
    async with tended(lot, size=0) as pool:
        taken: list[Any] = [await pool.take(f"session {n}", HERE) for n in range(20)]
        for number, machine in enumerate(taken):
            machine.used_at -= 20 - number
            await pool.give_back(machine, f"session {number}")
        kept = [machine for machine in taken if machine.is_alive]
        assert 0 < len(kept) < 20
        assert kept == taken[-len(kept) :]


async def test_a_boot_that_fails_is_told_and_tried_again(lot: Lot) -> None:
    lot.fails = True
    async with tended(lot) as pool:
        with pytest.raises(SandboxUnavailable, match="no machine to be had"):
            await pool.take("ada", HERE)
        lot.fails = False
        await until(lambda: pool.spare)
        machine: Any = await pool.take("ada", HERE)
        assert machine in lot.machines


async def test_a_closed_pool_gives_none_and_ends_those_that_come_late(lot: Lot) -> None:
    async with tended(lot) as pool:
        machine: Any = await pool.take("ada", HERE)
        await pool.aclose()
        await pool.give_back(machine, "ada")
        assert not machine.is_alive
        with pytest.raises(SandboxUnavailable, match="closed"):
            await pool.take("ada", HERE)


async def test_a_program_takes_the_machine_that_is_being_booted_already(lot: Lot) -> None:
    lot.may_boot = anyio.Event()
    async with tended(lot) as pool:
        await until(lambda: lot.begun == 1)
        asyncio.get_running_loop().call_later(0.05, lot.may_boot.set)
        machine: Any = await pool.take("ada", HERE)
        assert machine is lot.machines[0]
        await until(lambda: len(pool.spare) == 1)
        assert lot.begun == 2


async def test_a_program_that_is_cancelled_while_it_waits_leaves_the_machine_to_the_next(lot: Lot) -> None:
    lot.may_boot = anyio.Event()
    async with tended(lot) as pool:
        await until(lambda: lot.begun == 1)
        with anyio.move_on_after(0.05):
            await pool.take("ada", HERE)
        lot.may_boot.set()
        await until(lambda: pool.spare)
        machine: Any = await pool.take("bob", HERE)
        assert machine in lot.machines
