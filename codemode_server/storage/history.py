"""Searches the recorded executions, newest first.

Every search follows the index by principal and time, from the newest execution on. It stops when its page is full, and
at the latest after `MAX_EXAMINED` executions, or `MAX_DECRYPTED_BYTES` of values where it looks into those, so that a
rare text can't make it read everything; the page then says where the next one begins. Readers do not hold up the thread
that writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, bindparam, func, or_, select

from codemode_server.calls.audit import AuditEventKind
from codemode_server.domain.calls import CallStatus, RetryReason
from codemode_server.domain.executions import ExecutionStatus, IsolationLevel
from codemode_server.domain.history import (
    ApprovalWait,
    CallRetry,
    DecisionCount,
    ExecutionSummary,
    HistoryPage,
    HistoryQuery,
    ToolUse,
)
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.storage.database import AnyRow, Database
from codemode_server.storage.journal_values import JournalCipher, JournalValues, json_of
from codemode_server.storage.tables import ALL_ROWS, calls, events, executions

MAX_EXAMINED = 20_000
MAX_DECRYPTED_BYTES = 32 * 2**20
"""Approximate limit of the values that are searched for a page."""
_READ_AT_ONCE = 50
MAX_COUNTED_CALLS = 50_000
"""Newest calls of which decisions and uses are counted."""
_MAX_TOOLS = 4
_CALLS_WITH_TOOLS = 100
"""So many calls of each execution are looked at for the tools."""
_MAX_COUNTS = 200

_OWN = executions.c.principal == bindparam("of_principal")
_NEWEST_FIRST = executions.c.started_at.desc()
FLOOR = (
    select(executions.c.started_at)
    .where(_OWN, executions.c.started_at < bindparam("before"))
    .order_by(_NEWEST_FIRST)
    .limit(1)
    .offset(MAX_EXAMINED)
)
_NAMES = (
    select(executions.c.execution_id)
    .where(_OWN, executions.c.started_at >= bindparam("since"))
    .order_by(_NEWEST_FIRST)
    .limit(bindparam("most", type_=Integer))
)
_MOMENTS = (AuditEventKind.APPROVAL_REQUESTED, AuditEventKind.APPROVAL_SETTLED, AuditEventKind.CALL_RETRIED)
_WAITS_AND_RETRIES = (
    select(events.c.kind, events.c.seq, events.c.at, events.c.reason)
    .where(
        events.c.principal == bindparam("of_principal"),
        events.c.execution_id == bindparam("of_execution"),
        events.c.kind.in_(_MOMENTS),
    )
    .order_by(events.c.number)
)
_COUNTED = (
    select(calls.c.decision, calls.c.reason)
    .join(executions, executions.c.execution_id == calls.c.execution_id)
    .where(_OWN)
    .order_by(_NEWEST_FIRST)
    .limit(MAX_COUNTED_CALLS)
    .subquery()
)
_DECISIONS = (
    select(_COUNTED.c.decision, _COUNTED.c.reason, func.count().label("calls"))
    .group_by(_COUNTED.c.decision, _COUNTED.c.reason)
    .order_by(func.count().desc())
    .limit(_MAX_COUNTS)
)
_CALLED = (
    select(calls.c.server, calls.c.tool, calls.c.started_at)
    .join(executions, executions.c.execution_id == calls.c.execution_id)
    .where(_OWN, calls.c.status.not_in([it for it in CallStatus if not it.may_have_been_sent]))
    .order_by(_NEWEST_FIRST)
    .limit(MAX_COUNTED_CALLS)
    .subquery()
)
_USES = select(
    _CALLED.c.server, _CALLED.c.tool, func.count().label("calls"), func.max(_CALLED.c.started_at).label("last_at")
).group_by(_CALLED.c.server, _CALLED.c.tool)
_TOOLS = (
    select(calls.c.execution_id, calls.c.server, calls.c.tool)
    .where(calls.c.execution_id.in_(bindparam("names", expanding=True)), calls.c.seq <= _CALLS_WITH_TOOLS)
    .group_by(calls.c.execution_id, calls.c.server, calls.c.tool)
    .order_by(func.min(calls.c.seq))
)


class History:
    def __init__(self, database: Database, cipher: JournalCipher) -> None:
        self._database = database
        self._values = JournalValues(cipher)

    async def search(self, principal: Principal, query: HistoryQuery) -> HistoryPage:
        """The newest executions of the principal that fit. Raises `JournalUnavailable` as all methods do."""
        return await self._database.read(lambda connection: self._search(connection, principal, query))

    def _search(self, connection: Connection, principal: Principal, query: HistoryQuery) -> HistoryPage:
        of = {"of_principal": principal.principal_id, "before": float("inf") if query.before is None else query.before}
        floor = connection.execute(FLOOR, of).scalar() or 0.0
        values = of | {"since": max(query.since, floor), "most": query.limit + 1}
        if query.text and query.in_values:
            newest, floor = self._with_text(connection, query, values, floor)
        else:
            newest = connection.execute(statement(query), values).all()
        has_more = len(newest) > query.limit
        tools: dict[str, list[str]] = {row.execution_id: [] for row in newest[: query.limit]}
        for name, server, tool in connection.execute(_TOOLS, {"names": [*tools]}):
            tools[name].append(f"{server}.{tool}")
        shown = tuple(
            _summary(row, tools[row.execution_id], self._values.description(row)) for row in newest[: query.limit]
        )
        is_searched = not has_more and floor <= query.since
        return HistoryPage(shown, None if is_searched else shown[-1].started_at if has_more else floor)

    def _with_text(
        self, connection: Connection, query: HistoryQuery, values: Mapping[str, Any], floor: float
    ) -> tuple[Sequence[AnyRow], float]:
        """The newest executions with the text in their row or in their values, and the start of the oldest execution
        that was searched."""
        found: list[AnyRow] = []
        decrypted, needle = 0, json_of(query.text)[1:-1].decode("utf-8", "surrogatepass").casefold()
        every = statement(replace(query, text="")).add_columns(_has_text(query.text).label("fits"))
        with connection.execute(
            every.execution_options(yield_per=_READ_AT_ONCE), {**values, "most": MAX_EXAMINED}
        ) as rows:
            for row in rows:
                if row.fits or self._values.contain(connection, row, needle):
                    found.append(row)
                    if len(found) > query.limit:
                        break
                decrypted += row.value_bytes or 0
                if decrypted > MAX_DECRYPTED_BYTES:
                    return found, row.started_at
        return found, floor

    async def names(self, principal: Principal, since: float, limit: int | None) -> list[ExecutionId]:
        """The executions that started since then, newest first."""
        of = {"of_principal": principal.principal_id, "since": since, "most": ALL_ROWS if limit is None else limit}
        return [ExecutionId(name) for (name,) in await self._database.rows(_NAMES, of)]

    async def waits_and_retries(
        self, principal: Principal, execution_id: ExecutionId
    ) -> tuple[dict[int, ApprovalWait], dict[int, list[CallRetry]]]:
        """How long calls of an execution waited for a person, and when and why they were tried again, by their
        numbers."""
        of = {"of_principal": principal.principal_id, "of_execution": execution_id}
        rows = await self._database.rows(_WAITS_AND_RETRIES, of)
        waits: dict[int, ApprovalWait] = {}
        retries: dict[int, list[CallRetry]] = {}
        for kind, seq, at, reason in rows:
            if kind == AuditEventKind.CALL_RETRIED:
                retries.setdefault(seq, []).append(CallRetry(at, RetryReason(reason)))
                continue
            asked_at = waits[seq].asked_at if seq in waits else at
            is_settled = kind == AuditEventKind.APPROVAL_SETTLED
            waits[seq] = ApprovalWait(asked_at, at if is_settled else None, (reason or "") if is_settled else "")
        return waits, retries

    async def decisions(self, principal: Principal) -> list[DecisionCount]:
        """How often the rules decided what about the newest calls, most frequent first."""
        of = {"of_principal": principal.principal_id}
        rows = await self._database.rows(_DECISIONS, of)
        return [DecisionCount(*row) for row in rows]

    async def uses(self, principal: Principal) -> dict[tuple[str, str], ToolUse]:
        """How often tools were called and when last, among the newest calls that were sent, by raw server and tool."""
        rows = await self._database.rows(_USES, {"of_principal": principal.principal_id})
        return {(server, tool): ToolUse(count, last_at) for server, tool, count, last_at in rows}


def statement(query: HistoryQuery) -> Select[Any]:
    """The search, with the parameters `of_principal`, `before`, `since` and `most`."""
    found = select(executions).where(
        _OWN, executions.c.started_at < bindparam("before"), executions.c.started_at >= bindparam("since")
    )
    of_call = [calls.c[name] == value for name in ("server", "tool") if (value := getattr(query, name))]
    if of_call:
        found = found.where(_has_call(*of_call))
    if query.text:
        found = found.where(_has_text(query.text))
    if query.status is not None:
        found = found.where(executions.c.status == query.status)
    return found.order_by(_NEWEST_FIRST).limit(bindparam("most", type_=Integer))


def _has_text(text: str) -> ColumnElement[bool]:
    begins = executions.c.execution_id.istartswith(text, autoescape=True)
    own = [executions.c[it] for it in ("recorded_code", "recorded_description", "error")]
    theirs = [
        calls.c[it] for it in ("server", "tool", "reason", "recorded_arguments", "recorded_result", "recorded_error")
    ]
    parts = [it.icontains(text, autoescape=True) for it in own]
    in_calls = [it.icontains(text, autoescape=True) for it in theirs]
    return begins | or_(*parts) | _has_call(or_(*in_calls))


def _has_call(*which: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(calls.c.seq).where(calls.c.execution_id == executions.c.execution_id, *which).exists()


def _summary(row: AnyRow, tools: Sequence[str], description: str | None) -> ExecutionSummary:
    return ExecutionSummary(
        ExecutionId(row.execution_id),
        row.session_id,
        IsolationLevel(row.level) if row.level else None,
        row.started_at,
        ExecutionStatus(row.status),
        row.milliseconds,
        row.calls,
        tuple(tools[:_MAX_TOOLS]),
        description,
    )
