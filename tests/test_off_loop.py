"""Large values are told from small ones without a look at all of them, and worked on in a thread, one at a time."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codemode_server.off_loop import LARGE_BYTES, Pace, is_large, read_large, run_large, run_sized, switch_threads_often


@pytest.mark.parametrize("value", [None, 1, "x" * 1000, {}, {"a": [1, 2, {"b": "c"}]}, [{"id": n} for n in range(300)]])
def test_what_is_small_is_not_called_large(value: Any) -> None:
    assert not is_large(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * (LARGE_BYTES + 1),
        {"x" * (LARGE_BYTES + 1): 1},
        [[["x" * 1000] * 10] * 10],
        [0] * 10_000,
        [[]] * 10_000,
        {str(n): n for n in range(10_000)},
    ],
)
def test_many_values_and_long_texts_are_large(value: Any) -> None:
    assert is_large(value)


async def test_large_work_runs_in_one_thread_at_a_time_and_small_work_at_once() -> None:
    loop = threading.get_ident()
    at_once, most, threads = 0, 0, set[int]()
    both = threading.Event()

    def work() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        threads.add(threading.get_ident())
        both.wait(0.01)
        at_once -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(run_large, work)
    assert (most, loop in threads) == (1, False)
    assert await run_sized(False, threading.get_ident) == loop
    assert await run_sized(True, threading.get_ident) != loop


async def test_a_new_message_is_read_after_all_other_large_work() -> None:
    order: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        go_on.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_large, first)
        await anyio.to_thread.run_sync(began.wait)
        for number in range(3):
            tasks.start_soon(read_large, order.append, f"read {number}")
            tasks.start_soon(run_large, order.append, f"work {number}")
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert order == ["work 0", "work 1", "work 2", "read 0", "read 1", "read 2"]


async def test_the_garbage_collector_rests_during_large_work_only() -> None:
    assert await run_sized(False, gc.isenabled), "control"
    assert not await run_large(gc.isenabled)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        await run_large(lambda: 1 // 0)
    assert gc.isenabled()


async def test_large_work_leaves_a_pause_to_others_before_the_next() -> None:
    ends, begins = 0.0, 0.0
    took = 0.05

    def first() -> None:
        nonlocal ends
        time.sleep(took)
        ends = time.monotonic()

    def second() -> None:
        nonlocal begins
        begins = time.monotonic()

    await run_large(first)
    await run_large(second)
    assert begins - ends >= took / 2


async def turns_of_others(rest: Callable[[], Awaitable[None]]) -> int:
    """How many turns another task gets while 100 pieces of half a millisecond's work are done."""
    turns, is_over = 0, False

    async def other() -> None:
        nonlocal turns
        while not is_over:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        for _ in range(100):
            until = time.perf_counter() + 0.0005
            while time.perf_counter() < until:
                pass
            await rest()
        is_over = True
    return turns


async def test_between_small_pieces_others_get_many_turns() -> None:
    assert await turns_of_others(anyio.lowlevel.checkpoint) < 250, "control: one for each piece"
    assert await turns_of_others(Pace().rest) > 300


async def test_several_streams_together_leave_as_many_turns_as_one() -> None:
    paces = [Pace() for _ in range(8)]

    async def rest() -> None:
        paces.append(pace := paces.pop(0))
        await pace.rest()
        paces[0].begin()

    assert await turns_of_others(rest) > 300


async def test_what_a_stream_waits_for_is_no_work() -> None:
    pace = Pace()
    for _ in range(5):
        await anyio.sleep(0.004)
        pace.begin()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await pace.rest()
        assert not scope.cancelled_caught, "it did not rest"


def test_a_thread_that_computes_keeps_the_loop_waiting_for_a_millisecond_at_a_time() -> None:
    before = sys.getswitchinterval()
    try:
        switch_threads_often()
        assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)
