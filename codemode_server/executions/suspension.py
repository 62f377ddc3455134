"""Executions that wait for a person: whether their host still waits for them, and when they give up their sandbox.

An execution is detached once `execute_code` has answered `waiting`: it goes on without a host, and its end is kept in
memory until the host asks for it. One that is suspended for too long gives up its sandbox; its program runs again from
the journal when it is resumed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import anyio

from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.executions.execution import Execution

MAX_ENDED = 50
"""Detached executions whose end is kept; of older ones the value is an artifact."""


class Suspensions:
    """The detached executions of a product."""

    def __init__(self, suspended_seconds: Callable[[], float]) -> None:
        self._suspended_seconds = suspended_seconds
        self._ended: OrderedDict[ExecutionId, Execution] = OrderedDict()

    async def detach(self, execution: Execution) -> None:
        """Let it go on without a host, until it ends or has been suspended for too long."""
        execution.is_detached = True
        while not execution.done.is_set():
            with anyio.move_on_after(self._suspended_seconds()):
                await execution.done.wait()
            is_suspended = execution.status is ExecutionStatus.WAITING and execution.is_detached
            if not execution.done.is_set() and is_suspended:
                self.give_up(execution)
                await execution.done.wait()
        if execution.is_detached and not execution.is_given_up:
            self._ended[execution.execution_id] = execution
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)

    def give_up(self, execution: Execution) -> None:
        """End its program; its status stays `waiting`, and its questions stay open."""
        execution.is_given_up = True
        execution.calls.approvals.outlive_program = True
        execution.scope.cancel()

    def take_ended(self, execution_id: ExecutionId, principal: Principal) -> Execution | None:
        """A detached execution that has ended, once."""
        found = self._ended.get(execution_id)
        if found is None or found.context.principal != principal:
            return None
        return self._ended.pop(execution_id)
