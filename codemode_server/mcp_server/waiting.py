"""Waits for an execution that a host's call started; meanwhile reports its progress, and what upstreams ask the host.

A host of protocol 2026-07-28 is asked by the answer to its call, and repeats the call: that resumes the execution.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import anyio

from codemode_server.calls.execution_calls import ExecutionCalls, RunningCall
from codemode_server.domain.input_requests import HostInput
from codemode_server.executions.execution import Execution, PendingInput, Phase
from codemode_server.executions.host_waiting import WaitEnd
from codemode_server.mcp_server.host_requests import HostRequests
from codemode_server.mcp_server.product import Product, ToolContext
from codemode_server.mcp_server.replicas import execution_in, request_state
from codemode_server.mcp_server.tools.registry import Answer
from codemode_server.support.text import clean_line, counted, first_few

HEARTBEAT_SECONDS = 2.0
"""Maximum time between two notifications; hosts give up on a silent request."""
_INTERVAL_SECONDS = 0.25
"""Time between two looks at the execution, and so the minimum between two notifications."""
_MIN_PROGRESS_STEP = 0.01
"""Growth of the progress number if nothing else is known; 100 is a whole call."""
_MAX_MESSAGE_CHARACTERS = 160
_MAX_QUESTIONS = 5
_MAX_SERVERS = 5
SendProgress = Callable[[float, float | None, str], Awaitable[None]]


def host_input(host: HostRequests) -> HostInput:
    """Channel through which a new execution asks for input."""
    return PendingInput(host.features) if host.is_modern else host


def resumed(context: ToolContext) -> Execution | None:
    """The execution that waits for what the host brings; None if the call is a new one. Raises `MetaToolError`: it has
    ended."""
    state = context.host.state
    if state is None:
        return None
    execution = context.product.executions.rejoin(execution_in(state), context.caller.principal)
    for key, answer in context.host.responses.items():
        if execution.pending_input is not None:
            execution.pending_input.settle(key, answer)
    return execution


async def wait_for(execution: Execution, context: ToolContext) -> Answer | None:
    """Wait until an execution is settled, and report its progress to the host meanwhile. A host that cancels or
    disconnects cancels it. Returns what the host has to be asked first, if it is asked by an answer; or that a person
    is awaited, if that takes long: then the execution goes on without the host, until it is resumed."""
    executions = context.product.executions
    if execution.done.is_set():
        return None
    end: WaitEnd | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(report_progress, execution, context.host.report_progress, context.product)
            end = await executions.wait_with_host(execution)
            tasks.cancel_scope.cancel()
    finally:
        if end in (None, WaitEnd.ENDED):
            await executions.cancel(execution.execution_id)
    if end is WaitEnd.SUSPENDED:
        executions.detach(execution)
        return _suspended(execution)
    if end is not WaitEnd.INPUT or execution.pending_input is None:
        return None
    executions.park(execution)
    return Answer(
        "",
        {},
        input_requests=execution.pending_input.waiting,
        state=request_state(execution.execution_id, context.host.address),
    )


def _suspended(execution: Execution) -> Answer:
    name, awaited = execution.execution_id, list(execution.awaited.values())
    waiting = frozenset(execution.awaited)
    is_known, execution.reported_waiting = waiting == execution.reported_waiting, waiting
    if not waiting:
        text = (
            "status: waiting\nA server asked for input while codemode-server is being stopped, so the program was "
            f"suspended. Go on with execute_code with resume={name!r} and no code."
        )
    elif is_known:
        text = (
            f"status: waiting\nThe same questions are still unanswered. Go on with resume={name!r} only once the user "
            "says that they have answered."
        )
    else:
        done = len(execution.calls.reports)
        before = f"{counted(done, 'call')} {'was' if done == 1 else 'were'} made before it"
        questions = "".join(f"- {_question(execution, seq)}\n" for seq in list(execution.awaited)[:_MAX_QUESTIONS])
        text = (
            f"status: waiting\nThe program waits for the user's approval:\n{questions}"
            f"{before if done else 'No call was made before it'}. Only the user can answer: where this app asks, "
            "on a page if one opened, or in a terminal (with --for program for all calls of the tool in this program). "
            f"Show them the calls; once they have answered, execute_code with resume={name!r} and no code. Do not run "
            "the program anew."
        )
    content = {"status": "waiting", "execution_id": name, "calls": [], "awaited": awaited}
    return Answer(text, content, execution=execution)


def _question(execution: Execution, seq: int) -> str:
    approvals = execution.calls.approvals
    line = f"call {seq}, {approvals.waiting.get(seq, execution.awaited[seq])}"
    question = approvals.questions.get(seq)
    for_good = approvals.for_good.get(seq)
    again = f"; so that it is not asked again: {for_good}" if for_good else ""
    return line if question is None else f"{line}: {question}{again}"


async def report_progress(execution: Execution, send: SendProgress, product: Product) -> None:
    """Notify the host of each change, and at least every `HEARTBEAT_SECONDS`, until cancelled. Most programs have ended
    before there is anything to report."""
    meter, last, due = Meter(), "", -math.inf
    while True:
        await anyio.sleep(_INTERVAL_SECONDS)
        line = progress_line(execution, product.activity, product.tools.current().connecting)
        now = anyio.current_time()
        if line != last or now >= due:
            await send(*meter.read(execution.calls), line)
            last, due = line, now + HEARTBEAT_SECONDS


class Meter:
    """The number in a progress notification: 100 for each call that ended, and parts of those in flight. MCP demands
    that it grows with each notification, also when nothing has changed or an upstream counts back."""

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


def progress_line(execution: Execution, sandbox: str, connecting: Sequence[str] = ()) -> str:
    """The program's current activity in a few words. `sandbox` is the sandbox's start-up step, empty when it is ready;
    `connecting` are the servers that programs wait for at the start."""
    match execution.phase:
        case Phase.ACCEPTED:
            return (
                f"waiting for servers to connect: {first_few(connecting, _MAX_SERVERS)}" if connecting else "starting"
            )
        case Phase.QUEUED:
            return "waiting for its turn"
        case Phase.PREPARING:
            return sandbox or "starting the sandbox"
        case Phase.CHECKING:
            return "checking the program"
        case Phase.RUNNING if not execution.begun.is_set():
            return "starting a sandbox for the program"
    return _running_line(execution.calls)


def _running_line(calls: ExecutionCalls) -> str:
    reports, in_flight = calls.reports, list(calls.in_flight.values())
    done = f"{counted(len(reports), 'call')} done"
    if not in_flight:
        return f"running; {done}, the last {reports[-1].server}.{reports[-1].tool}" if reports else "running"
    # The one that reported last has news; where none reports, the oldest is what the program waits for.
    call = max(in_flight, key=lambda it: it.progress.reported_at or -math.inf)
    others = f" and {counted(len(in_flight) - 1, 'more call')}" if len(in_flight) > 1 else ""
    return f"waiting for {call.title}{_report(call)}{others}" + (f"; {done}" if reports else "")


def _report(call: RunningCall) -> str:
    progress = call.progress
    percent = "" if progress.fraction is None else f"{progress.fraction:.0%}"
    message = clean_line(progress.message, _MAX_MESSAGE_CHARACTERS)
    report = ": ".join(part for part in (percent, message) if part)
    return f" ({report})" if report else ""
