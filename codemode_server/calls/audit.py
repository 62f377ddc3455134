"""The rows of the audit: who did what, when, and by whose decision, with what `state.payloads` allows and no more."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal

MAX_CODE_CHARACTERS = 64 * 1024
"""Longer programs are cut in records."""
MAX_ERROR_CHARACTERS = 4 * 1024
"""Longer errors of executions and calls are cut in records."""


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
    event: AuditEvent
    number: int | None = None
    """That of an event; the journal has the beginnings of executions, and the calls."""
    digest: str | None = None
    """SHA-256 over the digest of the chain's event before and this one, hexadecimal."""

    @property
    def place(self) -> tuple[float, int, int]:
        """Among other rows: by time; of one moment by kind, and then as they were written."""
        return self.event.at, [*AuditEventKind].index(self.event.kind), self.number or 0
