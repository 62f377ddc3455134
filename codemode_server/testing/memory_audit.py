"""An audit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from codemode_server.domain.executions import ExecutionRecord
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.gateway.audit import AuditEvent, AuditEventKind, AuditRow
from codemode_server.gateway.audit_history import read_execution


class MemoryAudit:
    """Implements `gateway.audit.Audit`. `events` are all of them, of every principal."""

    def __init__(self) -> None:
        self._rows: list[AuditRow] = []

    @property
    def events(self) -> list[AuditEvent]:
        return [row.event for row in self._rows]

    def append(self, event: AuditEvent) -> None:
        before = self._rows[-1].digest if self._rows else ""
        self._rows.append(AuditRow(len(self._rows) + 1, event, _digest(before, event)))

    async def rows(
        self, principal: Principal, *, execution_id: ExecutionId | None = None, after: int = 0, limit: int = 1_000
    ) -> Sequence[AuditRow]:
        return [
            row
            for row in self._rows[after:]
            if row.event.principal == principal and execution_id in (None, row.event.execution_id)
        ][:limit]

    async def executions(
        self, principal: Principal, *, limit: int, before: float | None = None
    ) -> Sequence[ExecutionRecord]:
        started = [
            event
            for event in self.events
            if event.kind is AuditEventKind.EXECUTION_STARTED
            and event.principal == principal
            and (before is None or event.at < before)
        ]
        newest = sorted(started, key=lambda event: event.at, reverse=True)[:limit]
        found = [await read_execution(self, principal, event.execution_id) for event in newest]
        return [execution for execution, _ in filter(None, found)]

    async def first_broken_row(self) -> int | None:
        before = ""
        for row in self._rows:
            if row.digest != _digest(before, row.event):
                return row.number
            before = row.digest
        return None


def _digest(before: str, event: AuditEvent) -> str:
    return hashlib.sha256(f"{before}{event!r}".encode(errors="surrogatepass")).hexdigest()
