"""Takes executions out of the journal whose programs run again: to resume, replay, or apply a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.executions import CallRecord, ExecutionKind, ExecutionRecord, ExecutionStatus, Repeat
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session
from codemode_server.features.dry_run.plan import Plan
from codemode_server.support.off_loop import run_large

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_journal import SqliteJournal

_TRIES, _PAUSE_SECONDS = 6, 0.5
"""A product that was killed is noticed shortly after the next one has started."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The journal's data about the execution."""

    record: ExecutionRecord
    code: str
    repeat: Repeat
    calls: Sequence[CallRecord]


async def recorded(journal: SqliteJournal, principal: Principal, execution_id: ExecutionId) -> RecordedRun:
    """An execution of this principal with a program, as it is recorded. Raises `MetaToolError` if there is none, or it
    can't run again."""
    record = await _record(journal, principal, execution_id)
    if record.is_dry_run:
        raise MetaToolError(
            f"{execution_id} is a dry run, which can only be applied: execute_code(apply={execution_id!r})"
        )
    repeat = await journal.repeat(principal, execution_id)
    if record.kind is ExecutionKind.DIRECT_CALL or not record.code or repeat is None:
        raise MetaToolError(f"{execution_id} has no program that can run again")
    return RecordedRun(record, record.code, repeat, await journal.calls(principal, execution_id))


async def reopened(journal: SqliteJournal, past: RecordedRun, session: Session, *, has_value: bool) -> RecordedRun:
    """An execution that did not succeed, which is this product's to run again from now on, in this session.
    `has_value`: whether its value is stored. Raises `MetaToolError` if it succeeded, runs already, or can't run
    again."""
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


_ENDED = (ExecutionStatus.SUCCEEDED, ExecutionStatus.FAILED, ExecutionStatus.LIMITED)


async def plan_of(execution_id: ExecutionId, records: Sequence[CallRecord], config: LiveConfig) -> Plan:
    """The plan of a dry run with these calls. If the journal has deleted them, the person is asked about each call."""
    return await run_large(partial(Plan, redact=config.redactor.text), execution_id, records)


async def to_apply(journal: SqliteJournal, principal: Principal, execution_id: ExecutionId) -> RecordedRun:
    """The program of a dry run that may be applied, with its randomness and its calls. Raises `MetaToolError` if it is
    no dry run of this principal, has not come to an end, or was applied already: what it found out is no longer true
    then."""
    record = await _record(journal, principal, execution_id)
    if not record.is_dry_run:
        raise MetaToolError(f"{execution_id} is no dry run; make one with execute_code(code=…, dry_run=true)")
    if (other := await journal.applied_by(principal, execution_id)) is not None:
        again = (
            "" if other.status is ExecutionStatus.SUCCEEDED else f"; go on with that by resume={other.execution_id!r}"
        )
        raise MetaToolError(
            f"the plan of {execution_id} is applied already, as {other.execution_id} ({other.status.value}){again}; "
            "to do it a second time, make a new dry run"
        )
    repeat = await journal.repeat(principal, execution_id)
    if record.status not in _ENDED or not record.code or repeat is None:
        raise MetaToolError(
            f"the dry run {execution_id} did not come to an end ({record.status.value}); make a new one"
        )
    return RecordedRun(record, record.code, repeat, await journal.calls(principal, execution_id))


async def _record(journal: SqliteJournal, principal: Principal, execution_id: ExecutionId) -> ExecutionRecord:
    record = await journal.execution(principal, execution_id)
    if record is None:
        raise MetaToolError(f"there is no execution {execution_id!r} (any more: state.journal_hours)")
    return record
