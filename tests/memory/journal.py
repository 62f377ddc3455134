"""A journal in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from codemode_server.domain.calls import CallOutcome, Decision, ToolCall
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, Repeat
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session


class MemoryJournal:
    """Implements `gateway.journal.Journal`. Raises `failure` from every method while one is set."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.failure: Exception | None = None
        self._clock = clock
        self._executions: dict[ExecutionId, ExecutionRecord] = {}
        self._calls: dict[tuple[ExecutionId, int], CallRecord] = {}
        self._repetitions: dict[ExecutionId, Repeat] = {}

    async def begin_execution(self, record: ExecutionRecord, *, repeat: Repeat | None = None) -> None:
        if record.applies is not None and (other := await self.applied_by(record.principal, record.applies)):
            raise MetaToolError(f"the plan of {record.applies} is applied already, as {other.execution_id}")
        self._check()
        if repeat is not None:
            self._repetitions[record.execution_id] = repeat
        self._executions[record.execution_id] = record

    async def reopen_execution(self, record: ExecutionRecord, session: Session) -> bool:
        found = await self.execution(record.principal, record.execution_id)
        if found is None or found.ended_at is None or found.status is ExecutionStatus.SUCCEEDED:
            return False
        if found.session.session_id != record.session.session_id:
            return False
        self._executions[record.execution_id] = replace(
            found, status=ExecutionStatus.RUNNING, ended_at=None, error=None, session=session
        )
        return True

    async def end_execution(
        self,
        execution_id: ExecutionId,
        status: ExecutionStatus,
        *,
        error: str | None,
        calls: int,
        milliseconds: float,
    ) -> None:
        self._check()
        record = self._executions.get(execution_id)
        if record is not None and record.ended_at is None:
            self._executions[execution_id] = replace(
                record, status=status, ended_at=self._clock(), error=error, calls=calls, milliseconds=milliseconds
            )

    async def begin_call(self, call: ToolCall, decision: Decision, *, is_read_only: bool) -> None:
        self._check()
        self._calls.setdefault((call.execution_id, call.seq), CallRecord(call, decision, self._clock()))

    async def end_call(self, execution_id: ExecutionId, seq: int, outcome: CallOutcome) -> None:
        self._check()
        record = self._calls[execution_id, seq]
        if record.outcome is None:
            self._calls[execution_id, seq] = replace(record, outcome=outcome, ended_at=self._clock())

    async def execution(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        self._check()
        record = self._executions.get(execution_id)
        return record if record is not None and record.principal == principal else None

    async def applied_by(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        self._check()
        found = (it for it in self._executions.values() if it.principal == principal and it.applies == execution_id)
        return next(found, None)

    async def executions(
        self, principal: Principal, *, limit: int, before: float | None = None
    ) -> Sequence[ExecutionRecord]:
        self._check()
        found = [
            record
            for record in reversed(self._executions.values())
            if record.principal == principal and (before is None or record.started_at < before)
        ]
        return sorted(found, key=lambda record: record.started_at, reverse=True)[:limit]

    async def calls(self, principal: Principal, execution_id: ExecutionId) -> Sequence[CallRecord]:
        if await self.execution(principal, execution_id) is None:
            return []
        return [record for (name, _), record in sorted(self._calls.items()) if name == execution_id]

    async def repeat(self, principal: Principal, execution_id: ExecutionId) -> Repeat | None:
        if await self.execution(principal, execution_id) is None:
            return None
        return self._repetitions.get(execution_id)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
