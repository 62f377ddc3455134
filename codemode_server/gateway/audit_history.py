"""Executions and calls rebuilt from the audit, for when the journal has deleted them. Pure functions of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from codemode_server.domain.calls import (
    Allow,
    Ask,
    CallKey,
    CallOutcome,
    CallStatus,
    Decision,
    Deny,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, IsolationLevel
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal, Session
from codemode_server.gateway.audit import Audit, AuditEvent, AuditEventKind

_ROWS_AT_ONCE = 1_000
_DECISIONS: dict[str, Callable[[str], Decision]] = {"allow": Allow, "ask": Ask}
_NO_VALUES = "the journal has deleted its arguments and result, or never had them"


async def read_execution(
    audit: Audit, principal: Principal, execution_id: ExecutionId
) -> tuple[ExecutionRecord, list[CallRecord]] | None:
    """One execution of this principal with its calls; None if the audit does not know it (any more).

    Raises:
        AuditUnavailable: the store can't be read.
    """
    events: list[AuditEvent] = []
    after, is_more = 0, True
    while is_more:
        rows = await audit.rows(principal, execution_id=execution_id, after=after, limit=_ROWS_AT_ONCE)
        events += [row.event for row in rows]
        is_more = len(rows) == _ROWS_AT_ONCE
        after = rows[-1].number if rows else after
    started = next((event for event in events if event.kind is AuditEventKind.EXECUTION_STARTED), None)
    if started is None:
        return None
    ends = [event for event in events if event.kind is AuditEventKind.EXECUTION_ENDED]
    calls = _call_records(events)
    record = execution_record(started, ends[-1] if ends else None, len(calls))
    took = sum(event.milliseconds or 0.0 for event in ends) if ends else None  # a resumed one ended several times
    return replace(record, milliseconds=took), calls


def execution_record(started: AuditEvent, ended: AuditEvent | None, calls: int) -> ExecutionRecord:
    """An execution from the rows of its start and its end, if that is known."""
    return ExecutionRecord(
        started.execution_id,
        started.principal,
        Session(started.session_id),
        IsolationLevel(started.level) if started.level else None,
        ExecutionStatus(ended.status) if ended and ended.status else ExecutionStatus.RUNNING,
        started.at,
        started.payload,
        ended.at if ended else None,
        ended.error if ended else None,
        calls,
        ended.milliseconds if ended else None,
        description=started.reason,
    )


def _call_records(events: Sequence[AuditEvent]) -> list[CallRecord]:
    ended = {event.seq: event for event in events if event.kind is AuditEventKind.CALL_ENDED}
    return [_call_record(event, ended.get(event.seq)) for event in events if event.kind is AuditEventKind.CALL_DECIDED]


def _call_record(decided: AuditEvent, ended: AuditEvent | None) -> CallRecord:
    server, tool, seq = decided.server or "", decided.tool or "", decided.seq or 0
    outcome = None
    if ended is not None and ended.status:
        outcome = CallOutcome(CallStatus(ended.status), ended.milliseconds or 0.0, error=ended.error)
    call = ToolCall(decided.execution_id, seq, server, tool, {}, CallKey(server, tool, arguments_digest({}), 1))
    decision = _DECISIONS.get(decided.decision or "", Deny)(decided.reason or "")
    return CallRecord(call, decision, decided.at, outcome, _NO_VALUES, ended.at if ended else None)
