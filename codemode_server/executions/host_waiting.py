"""Waits for an execution in place of its host, and for a host that left with input requests to come back."""

from __future__ import annotations

from enum import StrEnum

import anyio

from codemode_server.executions.events import Subscriptions
from codemode_server.executions.execution import Execution
from codemode_server.executions.pending_input import PendingInput


class WaitEnd(StrEnum):
    """Why a host waits no longer: its execution …"""

    ENDED = "ended"
    INPUT = "input"  # asks its host for input
    SUSPENDED = "suspended"  # waits for a person


async def wait_with_host(execution: Execution, subscriptions: Subscriptions, answer_seconds: float) -> WaitEnd:
    """Wait until a live execution is settled, has a request for its host, or waits for a person while the host has
    waited for `answer_seconds`."""
    until = anyio.current_time() + answer_seconds
    async with anyio.create_task_group() as tasks:

        async def wait_suspended() -> None:
            events = subscriptions.open(execution.execution_id)
            await anyio.sleep_until(until)
            while not execution.awaited and not execution.done.is_set():
                await events.read_all()
            tasks.cancel_scope.cancel()

        async def wait_for_request(pending: PendingInput) -> None:
            await pending.wait_for_request()
            tasks.cancel_scope.cancel()

        tasks.start_soon(wait_suspended)
        if execution.pending_input is not None:
            tasks.start_soon(wait_for_request, execution.pending_input)
        await execution.done.wait()
        tasks.cancel_scope.cancel()
    if execution.done.is_set():
        return WaitEnd.ENDED
    has_request = execution.pending_input is not None and bool(execution.pending_input.waiting)
    return WaitEnd.INPUT if has_request else WaitEnd.SUSPENDED


async def host_returns(execution: Execution, input_seconds: float) -> bool:
    """True if the host of a parked execution returns within `input_seconds`. If the execution ends meanwhile, since the
    person has answered in another way, the host has as long again to come for the result."""
    resumed = execution.resumed
    with anyio.move_on_after(input_seconds):
        async with anyio.create_task_group() as tasks:

            async def wait_for_end() -> None:
                await execution.done.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait_for_end)
            await resumed.wait()
            tasks.cancel_scope.cancel()
    if execution.done.is_set():
        with anyio.move_on_after(input_seconds):
            await resumed.wait()
    return resumed.is_set()
