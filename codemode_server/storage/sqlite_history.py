"""Searches the executions of the audit on SQLite, newest first, without decrypting anything.

The audit has an index by principal and time, which every search follows from the newest execution on. A search
stops when its page is full, and at the latest after `MAX_EXAMINED` executions, so that a rare text can't make it read
everything; the page then says where to go on. It has a connection of its own, which only reads, so no product waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from codemode_server.domain.calls import RetryReason
from codemode_server.domain.executions import ExecutionStatus, IsolationLevel
from codemode_server.domain.history import (
    ApprovalWait,
    CallRetry,
    DecisionCount,
    ExecutionSummary,
    HistoryPage,
    HistoryQuery,
)
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import Database

MAX_EXAMINED = 20_000
MAX_COUNTED_ROWS = 50_000
"""Newest rows of the audit in which decisions are counted."""
_MAX_TOOLS = 4

_AUDIT = """
    SELECT a.execution_id, a.session_id, a.level, a.at AS started_at,
        COALESCE(j.status, e.status, 'running'), COALESCE(j.milliseconds, e.milliseconds), j.calls
    FROM audit a
    LEFT JOIN journal_executions j ON j.execution_id = a.execution_id AND j.principal = a.principal
    LEFT JOIN audit e ON e.number = (
        SELECT MAX(number) FROM audit
        WHERE principal = a.principal AND execution_id = a.execution_id AND kind = 'execution_ended')
    WHERE a.kind = 'execution_started' AND a.principal = :principal AND a.at < :before AND a.at >= :since
"""
"""The kind is a literal, so that SQLite can use the partial index."""
_AUDIT_CALLS = (
    "EXISTS (SELECT 1 FROM audit c WHERE c.principal = a.principal AND c.execution_id = a.execution_id AND {which})"
)
_IN_CALLS = " OR ".join(f"c.{name} LIKE :text ESCAPE '\\'" for name in ("server", "tool", "reason", "error", "payload"))
_FLOOR = (
    "SELECT at FROM audit WHERE kind = 'execution_started' AND principal = :principal AND at < :before"
    " ORDER BY at DESC LIMIT 1 OFFSET :examined"
)


class SqliteHistory:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, principal: Principal, query: HistoryQuery) -> HistoryPage:
        """The newest executions of the principal that fit. Raises `JournalUnavailable` as all methods do."""
        return await self._database.read(lambda connection: _search(connection, principal, query))

    async def names(self, principal: Principal, since: float, limit: int | None) -> list[ExecutionId]:
        """The executions that started since then, newest first, also those that only the audit or the journal has."""
        rows = await self._database.rows(
            "SELECT execution_id, MAX(at) AS began_at FROM ("
            "SELECT execution_id, started_at AS at FROM journal_executions WHERE principal = :principal"
            " UNION ALL SELECT execution_id, at FROM audit WHERE kind = 'execution_started' AND principal = :principal)"
            " WHERE at >= :since GROUP BY execution_id ORDER BY began_at DESC LIMIT :limit",
            {"principal": principal.principal_id, "since": since, "limit": -1 if limit is None else limit},
        )
        return [ExecutionId(name) for name, _ in rows]

    async def waits_and_retries(
        self, principal: Principal, execution_id: ExecutionId
    ) -> tuple[dict[int, ApprovalWait], dict[int, list[CallRetry]]]:
        """How long calls of an execution waited for a person, and when and why they were tried again, by their
        numbers."""
        rows = await self._database.rows(
            "SELECT kind, seq, at, reason FROM audit WHERE principal = ? AND execution_id = ? AND seq IS NOT NULL"
            " AND kind IN ('approval_requested', 'approval_settled', 'call_retried') ORDER BY number",
            (principal.principal_id, execution_id),
        )
        waits: dict[int, ApprovalWait] = {}
        retries: dict[int, list[CallRetry]] = {}
        for kind, seq, at, reason in rows:
            if kind == "call_retried":
                retries.setdefault(seq, []).append(CallRetry(at, RetryReason(reason)))
                continue
            asked_at = waits[seq].asked_at if seq in waits else at
            is_settled = kind == "approval_settled"
            waits[seq] = ApprovalWait(asked_at, at if is_settled else None, reason or "" if is_settled else "")
        return waits, retries

    async def decisions(self, principal: Principal) -> list[DecisionCount]:
        """How often each reason decided, in the newest rows of the audit; the most frequent first."""
        rows = await self._database.rows(
            "SELECT decision, reason, COUNT(*) FROM audit WHERE principal = ? AND kind = 'call_decided'"
            " AND number > (SELECT MAX(number) FROM audit) - ? GROUP BY decision, reason ORDER BY 3 DESC LIMIT 200",
            (principal.principal_id, MAX_COUNTED_ROWS),
        )
        return [DecisionCount(decision or "", reason or "", calls) for decision, reason, calls in rows]


def statement(query: HistoryQuery) -> str:
    """The search of the audit, with the status of each execution as the journal has it."""
    parts = [_AUDIT]
    which = [f"c.{name} = :{name}" for name in ("server", "tool") if getattr(query, name)]
    if which:
        parts.append(_AUDIT_CALLS.format(which=" AND ".join(["c.kind = 'call_decided'", *which])))
    if query.text:
        in_calls = _AUDIT_CALLS.format(which=f"({_IN_CALLS})")
        parts.append(f"(a.execution_id LIKE :start ESCAPE '\\' OR {in_calls})")
    if query.status is not None:
        parts.append("COALESCE(j.status, e.status, 'running') = :status")
    return f"{' AND '.join(parts)} ORDER BY a.at DESC LIMIT :limit"


def _search(connection: Connection, principal: Principal, query: HistoryQuery) -> HistoryPage:
    before = float("inf") if query.before is None else query.before
    given = {"principal": principal.principal_id, "before": before, "examined": MAX_EXAMINED}
    (floor,) = connection.exec_driver_sql(_FLOOR, given).fetchone() or (0.0,)
    values = {
        **given,
        "since": max(query.since, floor),
        "limit": query.limit + 1,
        "server": query.server,
        "tool": query.tool,
        "text": f"%{_escaped(query.text)}%",
        "start": f"{_escaped(query.text)}%",
        "status": query.status,
    }
    newest = connection.exec_driver_sql(statement(query), values).fetchall()
    has_more = len(newest) > query.limit
    shown = tuple(_summary(connection, principal, row) for row in newest[: query.limit])
    is_searched = not has_more and floor <= query.since
    return HistoryPage(shown, None if is_searched else shown[-1].started_at if has_more else floor)


def _escaped(text: str) -> str:
    for character in "\\%_":
        text = text.replace(character, f"\\{character}")
    return text


def _summary(connection: Connection, principal: Principal, row: Sequence[Any]) -> ExecutionSummary:
    name, session_id, level, started_at, status, milliseconds, calls = row
    tools = connection.exec_driver_sql(
        "SELECT DISTINCT server, tool FROM (SELECT server, tool FROM audit WHERE principal = :principal"
        " AND execution_id = :execution_id AND kind = 'call_decided' LIMIT 100) LIMIT :tools",
        {"principal": principal.principal_id, "execution_id": name, "tools": _MAX_TOOLS},
    ).fetchall()
    if not tools:
        tools = connection.exec_driver_sql(
            "SELECT DISTINCT server, tool FROM journal_calls WHERE execution_id = ? LIMIT ?", (name, _MAX_TOOLS)
        ).fetchall()
    return ExecutionSummary(
        ExecutionId(name),
        session_id,
        IsolationLevel(level) if level else None,
        started_at,
        ExecutionStatus(status),
        milliseconds,
        calls,
        tuple(f"{server}.{tool}" for server, tool in tools),
    )
