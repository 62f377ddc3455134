"""The audit: an append-only, hash-chained list of who did what, when, and by whose decision.

It holds what `state.payloads` allows, and no more; the journal holds complete values for a short time.
Once that has deleted an execution, it is rebuilt from the audit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_audit import SqliteAudit

MAX_CODE_CHARACTERS = 64 * 1024
"""Longer programs are cut in records."""
MAX_ERROR_CHARACTERS = 4 * 1024
"""Longer errors of executions and calls are cut in records."""
_ROWS_AT_ONCE = 1_000
_DECISIONS: dict[str, Callable[[str], Decision]] = {"allow": Allow, "ask": Ask}
_NO_VALUES = "the journal has deleted its arguments and result, or never had them"


class AuditEventKind(StrEnum):
    EXECUTION_STARTED = "execution_started"
    EXECUTION_RESUMED = "execution_resumed"  # its program runs again
    EXECUTION_ENDED = "execution_ended"
    CALL_DECIDED = "call_decided"
    CALL_ENDED = "call_ended"
    APPROVAL_REQUESTED = "approval_requested"  # of the person, before the call is sent
    APPROVAL_SETTLED = "approval_settled"  # by whom, over which channel and for how long is in the reason
    CALL_RETRIED = "call_retried"  # and sent; the reason is a `RetryReason`
    INPUT_REQUESTED = "input_requested"  # by an upstream during a call, of the person, a model, or for folders
    TOOL_CHANGED = "tool_changed"  # a server lists it differently than it was accepted; it waits for a review
    TOOL_ACCEPTED = "tool_accepted"  # the person accepted a changed or new definition
    SKILL_ACCEPTED = "skill_accepted"  # the person put a skill that a program saved in use
    SKILL_REJECTED = "skill_rejected"  # the person deleted a proposal, or took a skill out of use
    SOURCES_FORGOTTEN = "sources_forgotten"  # by the person: what a session has read no longer restricts its calls
    PRIVACY_SHOWN = "privacy_shown"  # to the person: what a privacy token stands for
    PRIVACY_FORGOTTEN = "privacy_forgotten"  # by the person: privacy tokens that stand for nothing any more
    CALL_UNRESOLVED = "call_unresolved"  # of a server or tool that does not exist; nothing was sent


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One row. Texts are redacted and cut before they get here."""

    kind: AuditEventKind
    principal: Principal
    session_id: str
    execution_id: ExecutionId
    """Empty for events of tools and skills, as the session is, and of sources."""
    at: float
    """Seconds since 1970."""
    seq: int | None = None
    """Number of the call within its execution; None for events of the execution."""
    server: str | None = None
    tool: str | None = None
    decision: str | None = None
    """`allow`, `deny`, `ask`, `replay` or `simulate`."""
    reason: str | None = None
    """Reason of a decision; for the start of an execution, its description, where `state.payloads` is `all`."""
    status: str | None = None
    milliseconds: float | None = None
    payload: str | None = None
    """Code, arguments or result, as far as `state.payloads` allows."""
    error: str | None = None
    level: str | None = None
    """Isolation of the sandbox, where an execution started."""

    @classmethod
    def by_person(cls, kind: AuditEventKind, principal: Principal, session_id: str = "", **more: str) -> AuditEvent:
        """An action of the person outside of executions, now."""
        return cls(kind, principal, session_id, ExecutionId(""), time.time(), **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An event with its place in the chain."""

    number: int
    event: AuditEvent
    digest: str
    """SHA-256 over the digest of the row before and this event, hexadecimal."""


async def read_execution(
    audit: SqliteAudit, principal: Principal, execution_id: ExecutionId
) -> tuple[ExecutionRecord, list[CallRecord]] | None:
    """One execution of this principal with its calls; None if the audit does not know it (any more). Raises
    `AuditUnavailable` if the store can't be read."""
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
    last = decided if ended is None or ended.decision is None else ended  # a person or a limit may have decided since
    decision = _DECISIONS.get(last.decision or "", Deny)(last.reason or "")
    return CallRecord(call, decision, decided.at, outcome, _NO_VALUES, ended.at if ended else None)
