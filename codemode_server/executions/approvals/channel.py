"""Protocol of an approval channel; all channels ask in parallel and the first answer wins."""

from __future__ import annotations

from typing import Protocol

from codemode_server.domain.approvals import Approval, ApprovalAnswer
from codemode_server.gateway.execution_calls import ExecutionCalls


class ApprovalChannel(Protocol):
    """One way to the person. The command line is none of these: it answers in the store, which is looked at."""

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        """The answer, however long it takes; None if none comes this way. Cancelling this withdraws the question.

        `answered_at` of the answer is filled in by the caller.
        """
