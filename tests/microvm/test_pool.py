"""Which machine a program gets. The machines are stand-ins that boot at once; real ones go through the same pool in
tests/sandbox, where a boot takes its time."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.errors import SandboxUnavailable
from codemode_server.sandbox.microvm import pool as pool_module
from codemode_server.sandbox.microvm.pool import Pool

WORKSPACE = Path("/w")


class StandIn:
    """What the pool knows of a machine."""

    def __init__(self, number: int, workspace: Path | None) -> None:
        self.number = number
        self.workspace = workspace
        self.born_at = self.used_at = time.monotonic()
        self.is_alive = True
        self.is_gone = False

    async def kill(self, within_s: float = 1.0) -> None:
        self.is_alive = False
        self.is_gone = True


class Boots:
    """Boots stand-ins; can be held up, and can fail."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.may_go_on = anyio.Event()
        self.may_go_on.set()
        self.fails = False
        self._numbers = itertools.count()

    async def __call__(self, workspace: Path | None) -> Any:
        await self.may_go_on.wait()
        if self.fails:
            raise SandboxUnavailable("no room")
        self.made.append(StandIn(next(self._numbers), workspace))
        return self.made[-1]


def make(boots: Boots, size: int = 1, idle_seconds: float = 100.0, age_seconds: float = 1_000.0) -> Pool:
    return Pool(boots, WORKSPACE, size, idle_seconds, age_seconds)


async def test_a_session_gets_its_own_machine_back_and_no_other_session_does() -> None:
    pool = make(Boots())
    first = await pool.take("a", WORKSPACE)
    await pool.give_back(first, "a")
    other = await pool.take("b", WORKSPACE)
    assert other is not first
    assert await pool.take("a", WORKSPACE) is first


async def test_two_programs_of_a_session_at_once_have_two_machines() -> None:
    pool = make(Boots())
    first, second = await pool.take("a", WORKSPACE), await pool.take("a", WORKSPACE)
    assert first is not second


async def test_a_machine_has_the_workspace_that_was_asked_for() -> None:
    pool = make(Boots())
    await pool.fill()
    assert (await pool.take("a", None)).workspace is None
    first = await pool.take("a", WORKSPACE)
    await pool.give_back(first, "a")
    assert await pool.take("a", None) is not first


async def test_a_booted_machine_is_taken_and_replaced_in_the_background() -> None:
    boots = Boots()
    pool = make(boots, size=2)
    async with anyio.create_task_group() as tasks:
        await pool.fill()
        tasks.start_soon(pool.tend)
        assert await pool.take("a", WORKSPACE) in boots.made[:2]
        with anyio.fail_after(5):
            while len(boots.made) < 3:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_program_waits_for_the_boot_that_is_under_way_rather_than_begin_its_own() -> None:
    boots = Boots()
    boots.may_go_on = anyio.Event()
    pool = make(boots)
    got: list[Any] = []

    async def take() -> None:
        got.append(await pool.take("a", WORKSPACE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.fill)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        boots.may_go_on.set()
    assert got == boots.made
    assert len(boots.made) == 1


async def test_a_boot_ahead_that_fails_leaves_the_program_its_own_try_and_reason() -> None:
    boots = Boots()
    boots.may_go_on = anyio.Event()
    boots.fails = True
    pool = make(boots)

    async def fill() -> None:
        try:
            await pool.fill()
        except* SandboxUnavailable:
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fill)
        await anyio.wait_all_tasks_blocked()
        boots.may_go_on.set()
        with pytest.raises(SandboxUnavailable, match="no room"):
            await pool.take("a", WORKSPACE)


@pytest.mark.parametrize("spoil", ["dead", "old", "idle"])
async def test_a_machine_that_is_no_longer_fit_is_ended_and_another_taken(spoil: str) -> None:
    pool = make(Boots())
    first = await pool.take("a", WORKSPACE)
    await pool.give_back(first, "a")
    match spoil:
        case "dead":
            first.is_alive = False  # type: ignore[misc]
        case "old":
            first.born_at -= 2_000
        case _:
            first.used_at -= 200
    assert await pool.take("a", WORKSPACE) is not first
    assert first.is_gone


async def test_a_spare_machine_may_wait_longer_than_a_session_is_kept() -> None:
    boots = Boots()
    pool = make(boots)
    await pool.fill()
    boots.made[0].used_at -= 200
    assert await pool.take("a", WORKSPACE) is boots.made[0]


async def test_what_is_too_old_is_ended_while_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_LOOK_SECONDS", 0.01)
    boots = Boots()
    pool = make(boots)
    await pool.fill()
    boots.made[0].born_at -= 2_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.tend)
        with anyio.fail_after(5):
            while not boots.made[0].is_gone or len(boots.made) < 2:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_machines_of_many_sessions_are_not_hoarded() -> None:
    boots = Boots()
    pool = make(boots, size=0)
    for session in range(12):
        await pool.give_back(await pool.take(f"s{session}", WORKSPACE), f"s{session}")
    assert [machine.number for machine in boots.made if machine.is_alive] == list(range(4, 12))


async def test_a_closed_pool_has_ended_all_and_boots_none() -> None:
    boots = Boots()
    pool = make(boots, size=2)
    await pool.fill()
    taken = await pool.take("a", WORKSPACE)
    assert await pool.aclose()
    assert not taken.is_alive
    assert all(machine.is_gone for machine in boots.made)
    with pytest.raises(SandboxUnavailable):
        await pool.take("a", WORKSPACE)
