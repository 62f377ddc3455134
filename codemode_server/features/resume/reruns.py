"""Runs recorded programs again: goes on with one that waits or did not end, applies a dry run, replays an execution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.expected_calls import PlannedCalls
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import (
    MAX_DESCRIPTION_CHARACTERS,
    CallRecord,
    ExecutionKind,
    ExecutionRecord,
    ExecutionStatus,
    Repeat,
)
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import NO_HOST_INPUT, HostInput
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import Effect
from codemode_server.executions.execution import Execution, new_id
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.executions.service import ExecutionService
from codemode_server.features import provided
from codemode_server.features.resume.resumed_calls import ResumedCalls
from codemode_server.support.off_loop import run_large

if TYPE_CHECKING:
    from codemode_server.storage.journal import Journal


_TRIES, _PAUSE_SECONDS = 6, 0.5
"""A product that is being killed may hold its lock for a moment."""
_ENDED = (ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED, ExecutionStatus.LIMITED)


@dataclass(frozen=True, slots=True)
class _RecordedRun:
    record: ExecutionRecord
    code: str
    repeat: Repeat
    calls: Sequence[CallRecord]


class TakenOver(Protocol):
    """Tracks which sessions get what a program of another one has read."""

    async def take_over_session(self, context: Caller, session: Session, *, has_read: bool) -> None:
        """The session of the request gets a program of that session. Raises `MetaToolError` if it may not."""

    async def share(self, execution_id: ExecutionId, owner: Caller, context: Caller) -> None:
        """The session of `context` gets the result of a live execution of `owner`."""

    def end_sharing(self, execution_id: ExecutionId) -> None: ...


@dataclass(frozen=True, slots=True)
class Reruns:
    executions: ExecutionService
    journal: Journal
    effect_of: Callable[[str, str], Effect]
    """The effect of a tool, by the raw names of server and tool."""
    config: LiveConfig
    sources: TakenOver
    settle: Callable[[], None]
    """Ends the executions of killed processes as interrupted. Blocks."""

    async def resume(
        self,
        execution_id: ExecutionId,
        context: Caller,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Go on with an execution that waits or did not come to its end: the live one, or one whose program runs again
        with the recorded answers to its calls. One that was detached and has ended meanwhile is returned once.
        `timeout_s`: as for `start`, of a program that runs again. Raises `MetaToolError` if it can't be resumed, or has
        a time limit already."""
        live = self.executions.live(execution_id, context.principal)
        if live is not None:
            if timeout_s is not None and not live.done.is_set():
                raise MetaToolError(
                    f"{execution_id} goes on within the time that it began with; resume it without 'timeout'"
                )
            await self.sources.share(execution_id, live.caller, context)
            if live.done.is_set():
                self.sources.end_sharing(execution_id)
            live.is_detached = False
            live.resumed.set()
            return live
        self.executions.check_open()
        past = await self._recorded(execution_id, context)
        past = await self._reopened(past, context)
        calls = ExecutionCalls(execution_id, context, host=host)
        calls.resumed = ResumedCalls(
            past.calls,
            effect_of=self.effect_of,
            unknown=self.config.settings.approvals.unknown,
            has_failed=past.record.status in (ExecutionStatus.FAILED, ExecutionStatus.LIMITED),
            redact=self.config.redactor.text,
        )
        execution = self._execution(past, calls, timeout_s)
        execution.is_rerun = execution.is_recorded = True  # so its end is recorded even if it never begins
        if (planned := past.record.applies) is not None:
            execution.applies, calls.plan = planned, await self._plan(planned, context)
        return self.executions.launch(execution)

    async def apply(
        self,
        execution_id: ExecutionId,
        context: Caller,
        timeout_s: float | None = None,
        host: HostInput = NO_HOST_INPUT,
    ) -> Execution:
        """Start to run the program of a dry run for real, in an execution of its own; a call that differs from the plan
        waits for a person. `timeout_s`: as for `start`. Raises `MetaToolError` if there is no such dry run, or it can't
        be applied."""
        past = await self._to_apply(execution_id, context)
        calls = ExecutionCalls(new_id(), context, host=host)
        calls.plan = await self._plan(execution_id, context)
        execution = self._execution(past, calls, timeout_s)
        execution.applies = execution_id
        return self.executions.launch(execution)

    async def replay(self, execution_id: ExecutionId, context: Caller) -> Execution:
        """Start to run the program of a recorded execution in an execution of its own, in which the journal answers
        every call and nothing is sent. Raises `MetaToolError` if there is none with a program (any more)."""
        past = await self._recorded(execution_id, context)
        calls = ExecutionCalls(new_id(), context)
        calls.resumed = ResumedCalls(past.calls, effect_of=self.effect_of, unknown="fail", is_closed=True)
        said = ": ".join(filter(None, [f"replay of {execution_id}", past.record.description]))
        past = replace(past, record=replace(past.record, description=said[:MAX_DESCRIPTION_CHARACTERS]))
        return self.executions.launch(self._execution(past, calls))

    async def _recorded(self, execution_id: ExecutionId, context: Caller) -> _RecordedRun:
        record = await self._record(execution_id, context)
        if record.is_dry_run:
            raise MetaToolError(
                f"{execution_id} is a dry run, which can only be applied: execute_code(apply={execution_id!r})"
            )
        repeat = await self.journal.repeat(context.principal, execution_id)
        if record.kind is ExecutionKind.DIRECT_CALL or not record.code or repeat is None:
            is_removed = record.kind is ExecutionKind.PROGRAM and record.code is None
            why = ": the journal has removed it (state.journal_hours)" if is_removed else ""
            raise MetaToolError(f"{execution_id} has no program that can run again{why}")
        return await self._taken_over(record, record.code, repeat, context)

    async def _reopened(self, past: _RecordedRun, context: Caller) -> _RecordedRun:
        """An execution that did not succeed, which is this product's to run again from now on, in this session."""
        principal, execution_id = context.principal, past.record.execution_id
        has_value = self.executions.artifacts.has(context.owner, execution_id)
        for _ in range(_TRIES):
            if await self.journal.reopen_execution(past.record, context.session):
                return replace(past, calls=await self.journal.calls(principal, execution_id))
            record = await self.journal.execution(principal, execution_id)
            if record is not None and record.status is ExecutionStatus.SUCCEEDED:
                value = f"its value is results[{execution_id!r}]" if has_value else "no value of it is stored"
                raise MetaToolError(f"{execution_id} has succeeded already, so nothing is left to do; {value}")
            await anyio.to_thread.run_sync(self.settle)
            await anyio.sleep(_PAUSE_SECONDS)
        raise MetaToolError(f"{execution_id} is running, in this codemode-server or another one")

    async def _to_apply(self, execution_id: ExecutionId, context: Caller) -> _RecordedRun:
        """The program of a dry run, unless it was applied already: what it found out is no longer true then."""
        record = await self._record(execution_id, context)
        if not record.is_dry_run:
            raise MetaToolError(f"{execution_id} is no dry run; make one with execute_code(code=…, dry_run=true)")
        if (other := await self.journal.applied_by(context.principal, execution_id)) is not None:
            has_succeeded = other.status is ExecutionStatus.SUCCEEDED
            again = "" if has_succeeded else f"; go on with that by resume={other.execution_id!r}"
            raise MetaToolError(
                f"the plan of {execution_id} is applied already, as {other.execution_id} ({other.status.value})"
                f"{again}; to do it a second time, make a new dry run"
            )
        repeat = await self.journal.repeat(context.principal, execution_id)
        if record.status not in _ENDED or not record.code or repeat is None:
            raise MetaToolError(
                f"the dry run {execution_id} did not come to an end ({record.status.value}); make a new one"
            )
        return await self._taken_over(record, record.code, repeat, context)

    async def _record(self, execution_id: ExecutionId, context: Caller) -> ExecutionRecord:
        record = await self.journal.execution(context.principal, execution_id)
        if record is None:
            raise MetaToolError(f"there is no execution {execution_id!r} (any more: state.journal_hours)")
        return record

    async def _plan(self, execution_id: ExecutionId, context: Caller) -> PlannedCalls:
        """The plan of a dry run. If the journal has deleted its calls, the person is asked about each call."""
        if not (plans := provided("plan")):
            raise MetaToolError("this codemode-server makes no dry runs, so it can apply none")
        records = await self.journal.calls(context.principal, execution_id)
        planned: PlannedCalls = await run_large(
            partial(plans[0], redact=self.config.redactor.text), execution_id, records
        )
        return planned

    async def _taken_over(self, record: ExecutionRecord, code: str, repeat: Repeat, context: Caller) -> _RecordedRun:
        """The session of `context` gets a program, which may hold all that the session of its earlier run had read."""
        calls = await self.journal.calls(context.principal, record.execution_id)
        has_read = any(it.outcome is not None and it.outcome.status is CallStatus.SUCCEEDED for it in calls)
        await self.sources.take_over_session(context, record.session, has_read=has_read)
        return _RecordedRun(record, code, repeat, calls)

    def _execution(self, past: _RecordedRun, calls: ExecutionCalls, timeout_s: float | None = None) -> Execution:
        """An execution of a recorded program, with the same randomness."""
        description = past.record.description or ""
        return self.executions.execution(
            past.code, calls, timeout_s=timeout_s, repeat=past.repeat, description=description
        )


class RerunRemarks(ExecutionLayer):
    """Tells the model how a program that ran again departed from its earlier run or its plan."""

    def is_for(self, execution: Execution) -> bool:
        return execution.calls.resumed is not None or execution.calls.plan is not None

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        yield
        for earlier in (execution.calls.resumed, execution.calls.plan):
            execution.calls.messages += earlier.remarks() if earlier is not None else []
