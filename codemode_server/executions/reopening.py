"""Takes an execution that did not come to its end out of the journal, so that its program can run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import CallRecord, ExecutionKind, ExecutionRecord, ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session
from codemode_server.domain.repetition import Repeat
from codemode_server.gateway.journal import Journal

_TRIES, _PAUSE_SECONDS = 6, 0.5
"""A product that was killed is noticed shortly after the next one has started."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The journal's data about the execution."""

    record: ExecutionRecord
    code: str
    repeat: Repeat
    calls: Sequence[CallRecord]


async def recorded(journal: Journal, principal: Principal, execution_id: ExecutionId) -> RecordedRun:
    """An execution of this principal with a program, as it is recorded.

    Raises:
        MetaToolError: there is none, or it can't run again.
    """
    record = await journal.execution(principal, execution_id)
    if record is None:
        raise MetaToolError(f"there is no execution {execution_id!r} (any more: state.journal_hours)")
    if record.is_dry_run:
        raise MetaToolError(
            f"{execution_id} is a dry run, which can only be applied: execute_code(apply={execution_id!r})"
        )
    repeat = await journal.repeat(principal, execution_id)
    if record.kind is ExecutionKind.DIRECT_CALL or not record.code or repeat is None:
        raise MetaToolError(f"{execution_id} has no program that can run again")
    return RecordedRun(record, record.code, repeat, await journal.calls(principal, execution_id))


async def reopened(journal: Journal, past: RecordedRun, session: Session, *, has_value: bool) -> RecordedRun:
    """An execution that did not succeed, which is this product's to run again from now on, in this session.
    `has_value`: whether its value is stored.

    Raises:
        MetaToolError: it succeeded, runs already, or can't run again.
    """
    principal, execution_id = past.record.principal, past.record.execution_id
    for _ in range(_TRIES):
        if await journal.reopen_execution(past.record, session):
            return replace(past, calls=await journal.calls(principal, execution_id))
        record = await journal.execution(principal, execution_id)
        if record is not None and record.status is ExecutionStatus.SUCCEEDED:
            value = f"its value is results[{execution_id!r}]" if has_value else "no value of it is stored"
            raise MetaToolError(f"{execution_id} has succeeded already, so nothing is left to do; {value}")
        await anyio.sleep(_PAUSE_SECONDS)
    raise MetaToolError(f"{execution_id} is running, in this codemode-server or another one")
