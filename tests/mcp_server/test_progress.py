"""The line and the number of a progress notification, from an execution as it stands. Pure; no product is started."""

from __future__ import annotations

import pytest

from codemode_server.calls.execution_calls import RunningCall
from codemode_server.executions.execution import Execution, Phase
from codemode_server.mcp_server.waiting import Meter, progress_line
from codemode_server.support.redaction import Redactor
from codemode_server.upstreams.progress import CallProgress
from tests.mcp_server.test_rendering import execution

COMPILED = "the sandbox is compiled (28 s)"


def running(phase: Phase) -> Execution:
    made = execution([])
    made.phase = phase
    return made


@pytest.mark.parametrize(
    ("phase", "line"),
    [
        (Phase.ACCEPTED, "starting"),
        (Phase.QUEUED, "waiting for its turn"),
        (Phase.PREPARING, COMPILED),
        (Phase.CHECKING, "checking the program"),
        (Phase.RUNNING, "starting a sandbox for the program"),
    ],
)
async def test_only_a_program_that_waits_for_the_sandbox_says_what_the_sandbox_does(phase: Phase, line: str) -> None:
    """Regression: the last line about the sandbox opened the progress of every later program."""
    assert progress_line(running(phase), COMPILED) == line


async def test_a_program_that_waits_for_servers_names_them() -> None:
    line = progress_line(running(Phase.ACCEPTED), COMPILED, [f"s{n}" for n in range(7)])
    assert line == "waiting for servers to connect: s0, s1, s2, s3, s4 and 2 more"


async def test_the_number_grows_when_an_upstream_counts_back_or_sends_nonsense() -> None:
    calls, progress, meter = running(Phase.RUNNING).calls, CallProgress(), Meter()
    calls.in_flight[1] = RunningCall("ci.build", progress)
    readings = [meter.read(calls)]
    reports: list[tuple[float, float | None]] = [(3, 4), (1, 4), (9, 4), (float("nan"), 4), (1, 0), (-5, 10), (1, None)]
    for done, total in reports:
        progress.take(done, total, None, 1.0, Redactor())
        readings.append(meter.read(calls))
    numbers = [number for number, _ in readings]
    assert numbers == sorted(set(numbers))
    assert all(total is None or total >= number for number, total in readings)
    assert readings[1] == (75.0, 100.0)


@pytest.mark.parametrize("before", ["", "x" * 995, "\u200b" * 995, "\u200b" * 99_970, "\u200b" * 99_995])
def test_no_part_of_a_secret_is_left_of_a_message_that_is_cut(before: str) -> None:
    secret, progress = "sk-abcdef123456789", CallProgress()
    progress.take(1, None, f"step {before}{secret}", 1.0, Redactor([secret]))
    assert "sk-" not in progress.message
    progress.take(2, None, "copying", 1.0, Redactor([secret]))
    assert progress.message == "copying"
