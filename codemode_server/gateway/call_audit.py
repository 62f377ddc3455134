"""The audit of each call: what was decided, and how it ended. Subscribes to the pipeline's events."""

from __future__ import annotations

import time
from typing import Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import ToolCall
from codemode_server.field_names import is_field_name
from codemode_server.gateway.audit import Audit, AuditEvent, AuditEventKind
from codemode_server.gateway.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallBegan,
    CallEnded,
    CallEvent,
    CallInputRequested,
    CallRetried,
    CallUnresolved,
)
from codemode_server.gateway.execution_calls import ExecutionCalls

_MAX_NAME_CHARACTERS = 1_000
"""Longer names of servers and tools, and longer reasons, are cut."""
MAX_UNRESOLVED_CALLS = 20
"""Calls of unknown tools that are recorded of one execution; a program that guesses names must not fill the audit."""
MAX_INPUT_REQUESTS = 100
"""Input requests that are recorded of one execution; an upstream that asks without end must not fill the audit."""


class CallAudit:
    """Appends one row for each decision, each retry, each outcome, and each call of an unknown tool."""

    def __init__(self, audit: Audit, config: LiveConfig) -> None:
        self._audit = audit
        self._config = config

    def __call__(self, event: CallEvent) -> None:
        match event:
            case CallBegan():
                self._append_decided(AuditEventKind.CALL_DECIDED, event, payload=event.arguments)
            case CallEnded(outcome=outcome):
                self._append_decided(
                    AuditEventKind.CALL_ENDED,
                    event,
                    status=outcome.status.value,
                    milliseconds=outcome.milliseconds,
                    payload=event.result.payload,
                    error=event.recorded_error,
                )
            case CallApprovalRequested() | CallApprovalSettled():
                self._append_approval(event)
            case CallRetried(calls, call, reason):
                self._append_call(AuditEventKind.CALL_RETRIED, calls, call, reason=reason.value)
            case CallInputRequested(calls, call):
                if calls.input_requests <= MAX_INPUT_REQUESTS:
                    self._append_call(
                        AuditEventKind.INPUT_REQUESTED,
                        calls,
                        call,
                        reason=event.feature,
                        status=event.status,
                        payload=event.payload,
                    )
            case CallUnresolved(calls):
                calls.unresolved += 1
                if calls.unresolved <= MAX_UNRESOLVED_CALLS:
                    server, tool = self._name(event.server), self._name(event.tool)
                    self._append(AuditEventKind.CALL_UNRESOLVED, calls, event.seq, server, tool, status="invalid")
            case _:
                pass

    def _name(self, name: str) -> str:
        """A name that the program made up, which may be a value."""
        return name if self._config.payloads == "all" or is_field_name(name) else "***"

    def _append_call(self, kind: AuditEventKind, calls: ExecutionCalls, call: ToolCall, **more: Any) -> None:
        self._append(kind, calls, call.seq, call.server, call.tool, **more)

    def _append_decided(self, kind: AuditEventKind, event: CallBegan | CallEnded, **more: Any) -> None:
        decision = event.decision
        reason = decision.reason[:_MAX_NAME_CHARACTERS]
        self._append_call(kind, event.calls, event.call, decision=decision.kind, reason=reason, **more)

    def _append_approval(self, event: CallApprovalRequested | CallApprovalSettled) -> None:
        """The person's words are in it; secrets are masked already."""
        is_asked = isinstance(event, CallApprovalRequested)
        kind = AuditEventKind.APPROVAL_REQUESTED if is_asked else AuditEventKind.APPROVAL_SETTLED
        decision = event.ask if isinstance(event, CallApprovalRequested) else event.answer
        status = None if is_asked or decision is not None else "withdrawn"
        reason = None if decision is None else decision.reason[:_MAX_NAME_CHARACTERS]
        name = None if decision is None else decision.kind
        self._append_call(kind, event.calls, event.call, decision=name, reason=reason, status=status)

    def _append(
        self, kind: AuditEventKind, calls: ExecutionCalls, seq: int, server: str, tool: str, **more: Any
    ) -> None:
        context = calls.context
        self._audit.append(
            AuditEvent(
                kind,
                context.principal,
                context.session.session_id,
                calls.execution_id,
                time.time(),
                seq=seq,
                server=server[:_MAX_NAME_CHARACTERS],
                tool=tool[:_MAX_NAME_CHARACTERS],
                **more,
            )
        )
