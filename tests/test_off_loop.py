"""Large values are told from small ones without a look at all of them, and worked on in a thread, one at a time."""

from __future__ import annotations

import gc
import sys
import threading
import time
from typing import Any

import anyio
import pytest

from codemode_server.off_loop import LARGE_BYTES, is_large, run_large, run_sized, switch_threads_often


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


def test_a_thread_that_computes_keeps_the_loop_waiting_for_a_millisecond_at_a_time() -> None:
    before = sys.getswitchinterval()
    try:
        switch_threads_often()
        assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)
