"""`codemode-server executions tail`: a real process prints what others write to the audit, until it is interrupted."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread

from codemode_server.domain.executions import ExecutionStatus
from tests import fork_server
from tests.behaviour.product import configuration
from tests.web.pages import OTHER, PROGRAM, TRIAGE, Call, State


@contextmanager
def tail(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    path = str(configuration(folder, {}))
    command = fork_server.command("-m", "codemode_server", "executions", "tail", *arguments, "--config", path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    with anyio.fail_after(60):
        return [(await anyio.to_thread.run_sync(process.stdout.readline)).rstrip("\n") for _ in range(count)]


async def test_events_are_printed_as_they_come_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    await state.execution("x1", PROGRAM, TRIAGE[0])
    await state.audit.extent()
    with tail(tmp_path, "--lines", "2") as process:
        earlier = await lines(process, 2)
        await state.execution("x9", "1", principal=OTHER)
        await state.execution("x2", "1/0", Call("get_issue", 1, 5, error="no such"), status=ExecutionStatus.FAILED)
        await state.audit.extent()
        printed = await lines(process, 4)
        process.send_signal(signal.SIGINT)
        assert await anyio.to_thread.run_sync(process.wait) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""
    state.thread.close()
    assert [line.split(" ", 1)[1] for line in earlier] == [
        "x1 call 1 github.list_issues: succeeded after 110 ms",
        "x1 succeeded after 1,000 ms",
    ]
    assert [line.split(" ", 1)[1] for line in printed] == [
        "x2 started in microvm",
        "x2 call 1 github.get_issue: allow, rule 1 of permissions.rules (allow: github/list_*)",
        "x2 call 1 github.get_issue: failed after 5 ms",
        "x2 failed after 1,000 ms",
    ]
