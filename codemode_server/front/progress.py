"""Reports a program's progress to the host: its phase, the call it waits for, and what that call's upstream reports."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio

from codemode_server.executions.execution import Execution, Phase
from codemode_server.front.tools.registry import Progress
from codemode_server.gateway.execution_calls import ExecutionCalls, RunningCall
from codemode_server.text import clean_line

HEARTBEAT_SECONDS = 2.0
"""Maximum time between two notifications; hosts give up on a silent request."""
_INTERVAL_SECONDS = 0.25
"""Time between two looks at the execution, and so the minimum between two notifications."""
_MIN_PROGRESS_STEP = 0.01
"""Growth of the progress number if nothing else is known; 100 is a whole call."""
_MAX_MESSAGE_CHARACTERS = 160


async def report_progress(execution: Execution, send: Progress, sandbox: Callable[[], str]) -> None:
    """Notify the host of each change, and at least every `HEARTBEAT_SECONDS`, until cancelled.

    `sandbox` gives the current sandbox start-up step; empty when ready.
    """
    meter, last, due = Meter(), "", -math.inf
    while True:
        line, now = progress_line(execution, sandbox()), anyio.current_time()
        if line != last or now >= due:
            await send(*meter.read(execution.calls), line)
            last, due = line, now + HEARTBEAT_SECONDS
        await anyio.sleep(_INTERVAL_SECONDS)


class Meter:
    """The number in a progress notification: 100 for each call that ended, and parts of those in flight.

    MCP demands that it grows with each notification, also when nothing has changed or an upstream counts back.
    """

    def __init__(self) -> None:
        self._value = 0.0

    def read(self, calls: ExecutionCalls) -> tuple[float, float | None]:
        """The number, and what it will be when the calls in flight have ended; None if their upstreams don't say."""
        parts = [call.progress.fraction for call in calls.in_flight.values()]
        ended = len(calls.reports)
        self._value = round(
            max(self._value + _MIN_PROGRESS_STEP, 100 * (ended + sum(part or 0.0 for part in parts))), 4
        )
        if all(part is None for part in parts):
            return self._value, None
        return self._value, max(self._value, 100.0 * (ended + len(parts)))


def progress_line(execution: Execution, sandbox: str) -> str:
    """The program's current activity in a few words."""
    match execution.phase:
        case Phase.ACCEPTED:
            return "starting"
        case Phase.QUEUED:
            queue = execution.queue
            return f"waiting for its turn: {queue.place} of {queue.waiting} in the queue, {queue.running} running"
        case Phase.PREPARING:
            return sandbox or "starting the sandbox"
        case Phase.CHECKING:
            return "checking the program"
        case Phase.RUNNING if not execution.begun.is_set():
            return "starting a sandbox for the program"
    return _running_line(execution.calls)


def _running_line(calls: ExecutionCalls) -> str:
    reports, in_flight = calls.reports, list(calls.in_flight.values())
    done = f"{len(reports)} call{'' if len(reports) == 1 else 's'} done"
    if not in_flight:
        return f"running; {done}, the last {reports[-1].server}.{reports[-1].tool}" if reports else "running"
    # The one that reported last has news; where none reports, the oldest is what the program waits for.
    call = max(in_flight, key=lambda it: it.progress.reported_at or -math.inf)
    others = f" and {len(in_flight) - 1} more call{'' if len(in_flight) == 2 else 's'}" if len(in_flight) > 1 else ""
    return f"waiting for {call.title}{_report(call)}{others}" + (f"; {done}" if reports else "")


def _report(call: RunningCall) -> str:
    progress = call.progress
    percent = "" if progress.fraction is None else f"{progress.fraction:.0%}"
    message = clean_line(progress.message, _MAX_MESSAGE_CHARACTERS)
    report = ": ".join(part for part in (percent, message) if part)
    return f" ({report})" if report else ""
