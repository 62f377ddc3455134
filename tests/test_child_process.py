"""A cancellation at the moment when a child process is started leaves no process, and none that nobody waits for.

Swept over the steps of the event loop, since the end of a product can come at each of them.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codemode_server.processes import child_process
from codemode_server.processes.child_process import ChildProcess, run
from codemode_server.processes.orphan_reaper import Reaper
from codemode_server.sandbox.backends.wasm.process import Worker
from codemode_server.upstreams.transports.stdio import StdioSettings, StdioTransport

pytestmark = pytest.mark.slow

SLEEP = "import time; time.sleep(60)"
STEPS = 14
"""Of the event loop; a process is started in fewer."""


async def upstream() -> None:
    reaper = Reaper()
    try:
        async with StdioTransport(StdioSettings(command=sys.executable, args=("-c", SLEEP)), reaper).open():
            await anyio.sleep_forever()
    finally:
        await reaper.aclose()


async def sandbox_worker() -> None:
    worker = await Worker.start(Path(__file__))
    try:
        await anyio.sleep_forever()
    finally:
        await worker.kill()


async def cancelled_after(steps: int, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def command() -> None:
    await run([sys.executable, "-c", SLEEP], env={}, seconds=60)


@pytest.mark.parametrize("start", [upstream, sandbox_worker, command], ids=lambda start: start.__name__)
def test_a_start_that_is_cancelled_leaves_no_process_that_is_not_waited_for(
    start: Callable[[], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer to end a process than the product waits for one that the system does not end.
    monkeypatch.setattr(child_process, "_REAP_S", 60.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for steps in range(STEPS):
            anyio.run(cancelled_after, steps, start)
        gc.collect()
    assert [str(it.message) for it in caught if "is still running" in str(it.message)] == []


def test_a_process_that_is_started_is_given_to_the_caller_before_the_cancellation() -> None:
    given = []

    async def start() -> None:
        process = await ChildProcess.start([sys.executable, "-c", SLEEP], env={})
        given.append(process.pid)
        try:
            await anyio.sleep_forever()
        finally:
            await process.kill()

    for steps in range(STEPS):
        anyio.run(cancelled_after, steps, start)
    assert len(given) == STEPS, "none was started without being given to the caller"


async def test_a_command_is_run_to_its_end_with_both_outputs() -> None:
    done = await run([sys.executable, "-c", "import sys; print(1); sys.exit('2')"], env={}, seconds=60)
    assert (done.returncode, done.stdout, done.stderr) == (1, "1\n", "2\n")


async def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, pathlib, sys; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); {SLEEP}"
    with pytest.raises(TimeoutError):
        await run([sys.executable, "-S", "-c", code], env={}, seconds=5)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
