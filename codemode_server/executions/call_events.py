"""Follows the calls of live executions: publishes them, holds their results, and notes which wait for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.executions.artifacts import NotStored
from codemode_server.executions.events import (
    ExecutionCallBegan,
    ExecutionCallEnded,
    ExecutionWaiting,
    Subscriptions,
)
from codemode_server.executions.execution import Execution
from codemode_server.gateway.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallBegan,
    CallEnded,
    CallEvent,
)
from codemode_server.gateway.targets import title_of


class CallEventPublisher:
    """Subscriber of the gateway."""

    def __init__(
        self,
        live: Mapping[ExecutionId, Execution],
        subscriptions: Subscriptions,
        note_status: Callable[[Execution], None],
        start_writing: Callable[[Execution], None],
    ) -> None:
        """`live` changes as executions start and end; `start_writing` writes results that are many to a file."""
        self._live = live
        self._subscriptions = subscriptions
        self._note_status = note_status
        self._start_writing = start_writing

    def take(self, event: CallEvent) -> None:
        match event:
            case CallBegan(calls, call):
                began = ExecutionCallBegan(calls.execution_id, call.seq, call.server, call.tool)
                self._subscriptions.publish(began)
            case CallApprovalRequested() | CallApprovalSettled():
                self._note_approval(event)
            case CallEnded(calls, call, outcome=outcome):
                ended = ExecutionCallEnded(calls.execution_id, call.seq, outcome.status, outcome.milliseconds)
                self._subscriptions.publish(ended)
                execution = self._live.get(calls.execution_id)
                if execution is None or event.reply is None or outcome.status is not CallStatus.SUCCEEDED:
                    return
                if execution.results.add(event.seq, event.reply, event.result):
                    self._start_writing(execution)
            case _:
                pass

    def _note_approval(self, event: CallApprovalRequested | CallApprovalSettled) -> None:
        """Its status is `waiting` as long as any of its calls waits for a person."""
        execution = self._live.get(event.calls.execution_id)
        if execution is None:
            return
        if isinstance(event, CallApprovalRequested):
            execution.awaited[event.call.seq] = title_of(event.target)
        else:
            execution.awaited.pop(event.call.seq, None)
            if event.answer is None:  # it ends; its status stays what it was
                return
        if execution.status in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING):
            execution.status = ExecutionStatus.WAITING if execution.awaited else ExecutionStatus.RUNNING
            self._note_status(execution)
        self._subscriptions.publish(ExecutionWaiting(execution.execution_id, tuple(execution.awaited.values())))


async def write_results(execution: Execution) -> None:
    """Write the call results that are held in memory to a file."""
    try:
        await execution.results.write()
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
