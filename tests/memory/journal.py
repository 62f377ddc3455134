"""A journal that stores nothing, for the gateway alone."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from anyio.lowlevel import checkpoint

from codemode_server.domain.calls import CallOutcome, Decision, Deny, ToolCall
from codemode_server.domain.ids import ExecutionId
from codemode_server.storage.journal import Journal


class NoJournal(Journal):
    """Takes calls and their outcomes; it has no database for anything else."""

    def __init__(self) -> None:
        """Opens nothing."""

    async def submit_call(self, call: ToolCall, decision: Decision, **options: Any) -> Awaitable[Deny | None]:
        """Store nothing."""
        return checkpoint()

    async def flush(self, execution_id: ExecutionId) -> None:
        """Nothing was posted."""

    async def end_call(
        self,
        execution_id: ExecutionId,
        seq: int,
        outcome: CallOutcome,
        decision: Decision | None = None,
        *,
        recorded_result: str | None = None,
        recorded_error: str | None = None,
    ) -> None:
        """Store nothing."""
