"""Runs recorded programs again: goes on with one that waits or did not end, applies a dry run, replays an execution."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.input_requests import NO_HOST_INPUT, HostInput
from codemode_server.domain.principals import Session
from codemode_server.domain.tools import Effect
from codemode_server.executions.execution import Execution, new_id
from codemode_server.executions.layers import ExecutionLayer
from codemode_server.executions.service import ExecutionService
from codemode_server.features.resume.reopening import RecordedRun, plan_of, recorded, reopened, to_apply
from codemode_server.features.resume.resumed_calls import ResumedCalls

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_journal import SqliteJournal


class TakenOver(Protocol):
    """Tracks which sessions get what a program of another one has read."""

    async def take_over_session(self, context: Caller, session: Session, *, has_read: bool) -> None:
        """The session of the request gets a program of that session. Raises `MetaToolError` if it may not."""

    def share(self, execution_id: ExecutionId, owner: Caller, context: Caller) -> None:
        """The session of `context` gets the result of a live execution of `owner`."""

    def end_sharing(self, execution_id: ExecutionId) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reruns:
    """Starts recorded programs of one product again."""

    executions: ExecutionService
    journal: SqliteJournal
    effect_of: Callable[[str, str], Effect]
    """The effect of a tool, by the raw names of server and tool."""
    config: LiveConfig
    sources: TakenOver

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
            self.sources.share(execution_id, live.context, context)
            if live.done.is_set():
                self.sources.end_sharing(execution_id)
            live.is_detached = False
            live.resumed.set()
            return live
        past = await recorded(self.journal, context.principal, execution_id)
        await self._take_over(past, context)
        has_value = self.executions.artifacts.has(context.owner, execution_id)
        past = await reopened(self.journal, past, context.session, has_value=has_value)
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
            records = await self.journal.calls(context.principal, planned)
            execution.applies, calls.plan = planned, await plan_of(planned, records, self.config)
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
        past = await to_apply(self.journal, context.principal, execution_id)
        await self._take_over(past, context)
        calls = ExecutionCalls(new_id(), context, host=host)
        calls.plan = await plan_of(execution_id, past.calls, self.config)
        execution = self._execution(past, calls, timeout_s)
        execution.applies = execution_id
        return self.executions.launch(execution)

    async def replay(self, execution_id: ExecutionId, context: Caller) -> Execution:
        """Start to run the program of a recorded execution in an execution of its own, in which the journal answers
        every call and nothing is sent. Raises `MetaToolError` if there is none with a program (any more)."""
        past = await recorded(self.journal, context.principal, execution_id)
        await self._take_over(past, context)
        calls = ExecutionCalls(new_id(), context)
        calls.resumed = ResumedCalls(past.calls, effect_of=self.effect_of, unknown="fail", is_closed=True)
        return self.executions.launch(self._execution(past, calls))

    def _execution(self, past: RecordedRun, calls: ExecutionCalls, timeout_s: float | None = None) -> Execution:
        """An execution of a recorded program, with the same randomness."""
        description = past.record.description or ""
        return self.executions.execution(
            past.code, calls, timeout_s=timeout_s, repeat=past.repeat, description=description
        )

    async def _take_over(self, past: RecordedRun, context: Caller) -> None:
        """The session of `context` gets a program, which may hold all that the session of its earlier run had read."""
        has_read = any(it.outcome is not None and it.outcome.status is CallStatus.SUCCEEDED for it in past.calls)
        await self.sources.take_over_session(context, past.record.session, has_read=has_read)


class RerunRemarks(ExecutionLayer):
    """Tells the model how a program that ran again departed from its earlier run or its plan."""

    def is_for(self, execution: Execution) -> bool:
        return execution.calls.resumed is not None or execution.calls.plan is not None

    @asynccontextmanager
    async def around_run(self, execution: Execution) -> AsyncIterator[None]:
        yield
        for earlier in (execution.calls.resumed, execution.calls.plan):
            execution.calls.messages += earlier.remarks() if earlier is not None else []
