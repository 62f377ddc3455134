"""Interface through which the pipeline asks a person to approve a call, and the events of a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from codemode_server.domain.calls import ApprovalDecision, Ask, Deny, ToolCall
from codemode_server.gateway.call_attempt import CallAttempt
from codemode_server.gateway.events import CallApprovalRequested, CallApprovalSettled, CallEvents
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.resumed_calls import naming_departure
from codemode_server.gateway.targets import CallTarget


class Approver(Protocol):
    """Asks the person. Neither a program nor the model has a way to it."""

    async def approve(
        self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask, on_question: Callable[[], None]
    ) -> ApprovalDecision:
        """The person's decision on one call, however long it takes; a time that has passed is a `Deny`. `Recorded`: the
        attempt of an earlier run arrived.

        `on_question` is called before the person is asked, and not at all if an earlier answer holds for this call too.
        Cancelling this withdraws the question.
        """


class _NobodyToAsk:
    async def approve(
        self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask, on_question: Callable[[], None]
    ) -> Deny:
        return Deny(f"it needs a person's approval, and nobody can be asked here ({ask.reason})")


NOBODY_TO_ASK: Approver = _NobodyToAsk()
"""For a gateway without a person, as in tests."""


async def ask_person(approver: Approver, events: CallEvents, attempt: CallAttempt, ask: Ask) -> ApprovalDecision:
    """The person's decision on a call. The limits of time stand still while all calls of its program wait so."""
    calls, call, target = attempt.calls, attempt.call, attempt.target
    is_asked, answer = False, None

    def on_question() -> None:
        nonlocal is_asked
        is_asked = True
        events.publish(CallApprovalRequested(calls, call, target, ask))

    try:
        with calls.host_wait.one_more():
            answer = await approver.approve(calls, call, target, ask, on_question)
    finally:
        if is_asked:
            events.publish(CallApprovalSettled(calls, call, target, answer))
    return naming_departure(calls, ask, answer)
