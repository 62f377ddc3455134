"""Interface through which the pipeline asks a person to approve a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from codemode_server.domain.calls import ApprovalDecision, Ask, Deny, ToolCall
from codemode_server.gateway.execution_calls import ExecutionCalls
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
