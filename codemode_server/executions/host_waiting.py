"""Executions and their hosts: waits in place of a host, and for one that left to come back.

An execution is detached once `execute_code` has answered `waiting`: it goes on without a host, and its end is held in
memory until the host asks for it. One that is suspended for too long gives up its sandbox; its program runs again from
the journal when it is resumed.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum

import anyio

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.executions.execution import Execution


class WaitEnd(StrEnum):
    """Why a host waits no longer: its execution …"""

    ENDED = "ended"
    INPUT = "input"  # asks its host for input
    SUSPENDED = "suspended"  # waits for a person


async def wait_with_host(execution: Execution, answer_seconds: float, is_draining: Callable[[], bool]) -> WaitEnd:
    """Wait until a live execution is settled, has a request for its host, or waits for a person while the host has
    waited for `answer_seconds`. While the product drains, a program that waits for anybody is suspended at once."""
    until, pending = anyio.current_time() + answer_seconds, execution.pending_input
    while not execution.done.is_set():
        if is_draining() and is_suspendable(execution):
            return WaitEnd.SUSPENDED
        if pending is not None and pending.waiting:
            return WaitEnd.INPUT
        if execution.awaited and anyio.current_time() >= until:
            return WaitEnd.SUSPENDED
        with anyio.CancelScope(deadline=until if execution.awaited else math.inf):
            await execution.changed.wait()
    return WaitEnd.ENDED


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


MAX_ENDED = 50
"""Detached executions whose end is kept; of older ones the value is an artifact."""


def is_suspendable(execution: Execution) -> bool:
    """True if it waits for a person or its host, and can be resumed."""
    return execution.direct_call is None and _waits(execution)


def _waits(execution: Execution) -> bool:
    return execution.status is ExecutionStatus.WAITING or bool(execution.calls.host_wait.calls)


def give_up(execution: Execution) -> None:
    """End its program; its status stays or becomes `waiting`, and its questions stay open."""
    execution.is_given_up = True
    execution.calls.approvals.outlive_program = True
    execution.scope.cancel()


class Suspensions:
    def __init__(self, suspended_seconds: Callable[[Execution], float]) -> None:
        self._suspended_seconds = suspended_seconds
        self._ended: OrderedDict[ExecutionId, Execution] = OrderedDict()

    async def detach(self, execution: Execution) -> None:
        """Let it go on without a host, until it ends or has been suspended for too long."""
        execution.is_detached = True
        while not execution.done.is_set():
            with anyio.move_on_after(self._suspended_seconds(execution)):
                await execution.done.wait()
            if not execution.done.is_set() and execution.is_detached and _waits(execution):
                give_up(execution)
                await execution.done.wait()
        if execution.is_detached and not execution.is_given_up:
            self._ended[execution.execution_id] = execution
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)

    def take_ended(self, execution_id: ExecutionId, principal: Principal) -> Execution | None:
        """A detached execution that has ended, once."""
        found = self._ended.get(execution_id)
        if found is None or found.caller.principal != principal:
            return None
        return self._ended.pop(execution_id)
