"""Large values are told from small ones without a look at all of them, and worked on in a thread, one at a time."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel

from codemode_server.support.off_loop import read_large, run_large, run_sized


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
