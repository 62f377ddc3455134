"""What the pipeline needs of whoever asks a person to approve a call."""

from __future__ import annotations

from typing import Protocol

from codemode_server.domain.calls import Allow, Ask, Deny, ToolCall
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.targets import CallTarget


class Approver(Protocol):
    """Asks the person. Neither a program nor the model has a way to it."""

    async def approve(self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask) -> Allow | Deny:
        """The person's decision on one call, however long it takes; a time that has passed is a `Deny`.

        Cancelling this withdraws the question.
        """


class _NobodyToAsk:
    async def approve(self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask) -> Allow | Deny:
        return Deny(f"it needs a person's approval, and nobody can be asked here ({ask.reason})")


NOBODY_TO_ASK: Approver = _NobodyToAsk()
"""For a gateway without a person, as in tests."""
