"""The audit of what happens to a call beside its record in the journal. Subscribes to the events of calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from codemode_server.calls.audit import AuditEvent, AuditEventKind
from codemode_server.calls.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallEvent,
    CallInputRequested,
    CallRetried,
    CallUnresolved,
)
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Decision
from codemode_server.support.field_names import is_field_name

if TYPE_CHECKING:
    from codemode_server.storage.audit import Audit

_MAX_NAME_CHARACTERS = 1_000
"""Longer names of servers and tools, and longer reasons, are cut."""
MAX_UNRESOLVED_CALLS = 20
"""Calls of unknown tools that are recorded of one execution; a program that guesses names must not fill the audit."""
MAX_INPUT_REQUESTS = 100
"""Input requests that are recorded of one execution; an upstream that asks without end must not fill the audit."""


class CallAudit:
    """Appends an event for each question, each retry, and each call of an unknown tool."""

    def __init__(self, audit: Audit, config: LiveConfig) -> None:
        self._audit = audit
        self._config = config

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallApprovalRequested():
                self._append(AuditEventKind.APPROVAL_REQUESTED, event, event.ask)
            case CallApprovalSettled(answer=answer):  # with the person's words; secrets are masked already
                status = "withdrawn" if answer is None else None
                self._append(AuditEventKind.APPROVAL_SETTLED, event, answer, status=status)
            case CallRetried():
                self._append(AuditEventKind.CALL_RETRIED, event, reason=event.reason.value)
            case CallInputRequested(calls) if calls.input_requests <= MAX_INPUT_REQUESTS:
                more = {"reason": event.feature, "status": event.status, "payload": event.payload}
                self._append(AuditEventKind.INPUT_REQUESTED, event, None, **more)
            case CallUnresolved(calls):
                calls.unresolved += 1
                if calls.unresolved <= MAX_UNRESOLVED_CALLS:
                    self._append(AuditEventKind.CALL_UNRESOLVED, event, status="invalid")
            case _:
                pass

    def _name(self, name: str) -> str:
        """A name that the program made up, which may be a value."""
        return name if self._config.payloads == "all" or is_field_name(name) else "***"

    def _append(self, kind: AuditEventKind, event: CallEvent, decision: Decision | None = None, **more: Any) -> None:
        if isinstance(event, CallUnresolved):
            seq, server, tool = event.seq, self._name(event.server), self._name(event.tool)
        else:
            seq, server, tool = event.call.seq, event.call.server, event.call.tool
        if decision is not None:
            more |= {"decision": decision.kind, "reason": decision.reason[:_MAX_NAME_CHARACTERS]}
        context = event.calls.caller
        self._audit.append(
            AuditEvent(
                kind,
                context.principal,
                context.session.session_id,
                event.calls.execution_id,
                time.time(),
                seq=seq,
                server=server[:_MAX_NAME_CHARACTERS],
                tool=tool[:_MAX_NAME_CHARACTERS],
                **more,
            )
        )
