"""The store of approvals: questions and answers that survive a restart, and that other processes may answer.

Implementations pass `tests/conformance/test_approvals.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from codemode_server.domain.approvals import Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.principals import Principal


class ApprovalStore(Protocol):
    """Holds questions, encrypted at rest, as long as the journal holds their executions.

    Every method raises `JournalUnavailable` if the store can't be used.
    """

    async def ask(self, approval: Approval) -> Approval:
        """Store a question without an answer; returns it, or the one that it repeats (`Approval.repeats`), which may
        have an answer. One of the same call that it does not repeat is deleted."""

    async def answer(
        self, approval_id: ApprovalId, answer: ApprovalAnswer, *, replaces_refusal: bool = False
    ) -> Approval | None:
        """Store an answer, unless there is one: the first one stays, except for a refusal that this one replaces.
        Returns the approval with the answer that holds, once that survives the death of the process; None if the
        question was withdrawn. What privacy tokens stand for is stored until then."""

    async def withdraw(self, approval_id: ApprovalId, *, is_answered: bool = False) -> None:
        """Delete a question that has no answer, or that has one."""

    async def get(self, principal: Principal, approval_id: ApprovalId) -> Approval | None:
        """One of this principal; None if there is none (any more)."""

    async def unanswered(self, principal: Principal) -> Sequence[Approval]:
        """The principal's questions without an answer, oldest first, also those whose time has passed."""

    async def answered(self, approval_ids: Collection[ApprovalId]) -> Sequence[Approval]:
        """Those of these that have an answer."""

    async def remembered(self, principal: Principal, session_id: str) -> Sequence[Approval]:
        """The newest approvals of a session whose answer holds for more than its call."""
