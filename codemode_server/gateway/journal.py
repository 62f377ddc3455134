"""The journal: the durable log of executions and calls that resume, replay and "what did call 17 return" read.

A call is in the journal before anything of it is sent: a `begin_call` that raises stops the call. Everything else that
follows a call (tracing, audit, learning, usage statistics) subscribes to `gateway.events` and can stop nothing. A call
that was begun and never ended is one whose outcome is unknown: the product was killed before the answer.

Implementations pass `tests/conformance/test_journal.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from codemode_server.domain.calls import CallOutcome, Decision, ToolCall
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, Repeat
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session


class Journal(Protocol):
    """Holds complete arguments and results, encrypted at rest, until the retention of `state:` has passed.

    Every method raises `JournalUnavailable` if the store can't be used, with a message that says what to do.
    """

    async def begin_execution(self, record: ExecutionRecord, *, repeat: Repeat | None = None) -> None:
        """Returns once the record survives the death of the process. `repeat`: of a program that can run again.

        Raises:
            MetaToolError: another execution applies the same dry run.
        """

    async def applied_by(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        """The execution of this principal that applies a dry run; None if there is none (any more)."""

    async def reopen_execution(self, record: ExecutionRecord, session: Session) -> bool:
        """Take an execution that has ended and did not succeed, to run it again in this session; its status is
        `running` from now on. False if there is none, if it runs, here or in another product, or if by now it is of
        another session than in the record."""

    async def end_execution(
        self,
        execution_id: ExecutionId,
        status: ExecutionStatus,
        *,
        error: str | None,
        calls: int,
        milliseconds: float,
    ) -> None:
        """Set a final status, or `waiting`; it ends once, until it is reopened."""

    async def begin_call(self, call: ToolCall, decision: Decision, *, is_read_only: bool) -> None:
        """Returns once the call survives the death of the process, and, if it is sent and not `is_read_only`, that of
        the machine. A caller that is cancelled meanwhile has recorded it; to begin it once more changes nothing."""

    async def end_call(self, execution_id: ExecutionId, seq: int, outcome: CallOutcome) -> None:
        """Record how a call ended, also one that was refused and never begun (then with `begin_call` before it).

        Returns once that is queued, so that the program need not wait for the disk. If it can't be written, the next
        `begin_call` or `end_execution` of the execution raises `JournalUnavailable`."""

    async def execution(self, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord | None:
        """One execution of this principal; None if there is none (any more)."""

    async def executions(
        self, principal: Principal, *, limit: int, before: float | None = None
    ) -> Sequence[ExecutionRecord]:
        """The principal's executions, newest first; `before`: only those that started before that time."""

    async def calls(self, principal: Principal, execution_id: ExecutionId) -> Sequence[CallRecord]:
        """All calls of an execution of this principal in the order of their numbers."""

    async def repeat(self, principal: Principal, execution_id: ExecutionId) -> Repeat | None:
        """The seed with which a program of this principal began. None if there is no such execution (any more), if it
        can't run again, or if that can't be read."""
