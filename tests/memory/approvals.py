"""A store of approvals in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.principals import Principal


class MemoryApprovals:
    """Implements `executions.approvals.store.ApprovalStore`. Raises `failure` from every method while one is set."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._approvals: dict[ApprovalId, Approval] = {}

    async def ask(self, approval: Approval) -> Approval:
        for earlier in self._found():
            if approval.repeats(earlier):
                return earlier
            if (earlier.execution_id, earlier.key) == (approval.execution_id, approval.key):
                del self._approvals[earlier.approval_id]
        self._approvals[approval.approval_id] = approval
        return approval

    async def answer(self, approval_id: ApprovalId, answer: ApprovalAnswer) -> Approval | None:
        found = next((it for it in self._found() if it.approval_id == approval_id), None)
        if found is None or found.answer is not None:
            return found
        self._approvals[approval_id] = replace(found, answer=answer, question=found.question.without_values())
        return self._approvals[approval_id]

    async def withdraw(self, approval_id: ApprovalId) -> None:
        if any(it.approval_id == approval_id and it.answer is None for it in self._found()):
            del self._approvals[approval_id]

    async def get(self, principal: Principal, approval_id: ApprovalId) -> Approval | None:
        found = [it for it in self._found() if (it.approval_id, it.principal) == (approval_id, principal)]
        return found[0] if found else None

    async def unanswered(self, principal: Principal) -> Sequence[Approval]:
        found = [it for it in self._found() if it.principal == principal and it.answer is None]
        return sorted(found, key=lambda it: it.asked_at)

    async def answered(self, approval_ids: Collection[ApprovalId]) -> Sequence[Approval]:
        return [it for it in self._found() if it.approval_id in approval_ids and it.answer is not None]

    async def remembered(self, principal: Principal, session_id: str) -> Sequence[Approval]:
        of_session = [it for it in self._found() if (it.principal, it.session_id) == (principal, session_id)]
        return [
            it
            for it in sorted(of_session, key=lambda it: it.asked_at, reverse=True)
            if it.answer and it.answer.is_approved and it.answer.scope is not AnswerScope.CALL
        ]

    def _found(self) -> list[Approval]:
        if self.failure is not None:
            raise self.failure
        return list(self._approvals.values())
