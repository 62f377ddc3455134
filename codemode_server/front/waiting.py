"""Waits for an execution that a host's call started, and brings the host what upstreams ask it meanwhile.

A host of protocol 2026-07-28 is asked by the answer to its call, and repeats the call: that resumes the execution.
"""

from __future__ import annotations

import anyio

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import HostInput
from codemode_server.executions.execution import Execution
from codemode_server.executions.host_waiting import WaitEnd
from codemode_server.executions.pending_input import PendingInput
from codemode_server.front.progress import report_progress
from codemode_server.front.tools.registry import Answer, Host, ToolContext

_MAX_QUESTIONS = 5


def host_input(host: Host) -> HostInput:
    """Channel through which a new execution asks for input."""
    return PendingInput(host.features) if host.is_modern else host


def resumed(context: ToolContext) -> Execution | None:
    """The execution that waits for what the host brings; None if the call is a new one. Raises `MetaToolError`: it has
    ended."""
    state = context.host.state
    if state is None:
        return None
    execution = context.services.executions.rejoin(ExecutionId(state), context.request.principal)
    for key, answer in context.host.responses.items():
        if execution.pending_input is not None:
            execution.pending_input.settle(key, answer)
    return execution


async def wait_for(execution: Execution, context: ToolContext) -> Answer | None:
    """Wait until an execution is settled, and report its progress to the host meanwhile. A host that cancels or
    disconnects cancels it. Returns what the host has to be asked first, if it is asked by an answer; or that a person
    is awaited, if that takes long: then the execution goes on without the host, until it is resumed."""
    executions = context.services.executions
    if execution.done.is_set():
        return None
    end: WaitEnd | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(report_progress, execution, context.progress, context.services.activity)
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
    return Answer("", {}, input_requests=execution.pending_input.waiting, state=execution.execution_id)


def _suspended(execution: Execution) -> Answer:
    name, awaited = execution.execution_id, list(execution.awaited.values())
    waiting = frozenset(execution.awaited)
    is_known, execution.reported_waiting = waiting == execution.reported_waiting, waiting
    if is_known:
        text = (
            f"status: waiting\nThe same questions are still unanswered. Go on with resume={name!r} only once the user "
            "says that they have answered."
        )
    else:
        done = sum(report.status is CallStatus.SUCCEEDED for report in execution.calls.reports)
        questions = "".join(f"- {_question(execution, seq)}\n" for seq in list(execution.awaited)[:_MAX_QUESTIONS])
        text = (
            f"status: waiting\nThe program waits for the user's approval:\n{questions}{done} "
            f"{'call' if done == 1 else 'calls'} before it succeeded. Only the user can answer: where this app asks, "
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
    return line if question is None else f"{line}: codemode-server approvals approve {question}"
