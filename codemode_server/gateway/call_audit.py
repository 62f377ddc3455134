"""The audit of each call: what was decided, and how it ended. Subscribes to the pipeline's events."""

from __future__ import annotations

import time
from dataclasses import replace

from codemode_server.gateway.audit import Audit, AuditEvent, AuditEventKind
from codemode_server.gateway.events import CallBegan, CallEnded, CallEvent

_MAX_NAME_CHARACTERS = 1_000
"""What is stored of the name of a server or tool, and of a reason."""


class CallAudit:
    """Calls of what does not exist are not in the audit: nobody decides on them, and nothing is sent."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def __call__(self, event: CallEvent) -> None:
        if not isinstance(event, CallBegan | CallEnded):
            return
        call, context = event.call, event.calls.context
        row = AuditEvent(
            AuditEventKind.CALL_DECIDED,
            context.principal,
            context.session.session_id,
            call.execution_id,
            time.time(),
            seq=call.seq,
            server=call.server[:_MAX_NAME_CHARACTERS],
            tool=call.tool[:_MAX_NAME_CHARACTERS],
            decision=event.decision.kind,
            reason=event.decision.reason[:_MAX_NAME_CHARACTERS],
        )
        match event:
            case CallBegan():
                row = replace(row, payload=event.arguments)
            case CallEnded(outcome=outcome):
                row = replace(
                    row,
                    kind=AuditEventKind.CALL_ENDED,
                    status=outcome.status.value,
                    milliseconds=outcome.milliseconds,
                    payload=event.result.payload,
                    error=event.recorded_error,
                )
        self._audit.append(row)
