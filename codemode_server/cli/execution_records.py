"""Recorded executions as commands print them: of the journal, and of what that has deleted, of the audit.

Of programs and errors they have what `state.payloads` allows, of those in the audit what it allowed when they ran;
without the secrets of the configuration.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

import anyio.to_thread

from codemode_server.cli.state_database import has_database
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.domain.approvals import Approval
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus
from codemode_server.domain.history import CallRetry
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.principals import Principal
from codemode_server.executions.plan_report import PlanReport, plan_report
from codemode_server.executions.recording import code_as_configured
from codemode_server.first_listing import state_folder
from codemode_server.gateway.audit_history import read_execution
from codemode_server.redaction import Redactor, payload
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import settle_before_reading
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_approvals import SqliteApprovals
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_history import SqliteHistory
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.text import clean_line

_MAX_ERROR_CHARACTERS = 300
_PAGE = 200


class ReadExecutions(Protocol):
    """`executions` of the journal or the audit."""

    async def __call__(
        self, principal: Principal, *, limit: int, before: float | None = None
    ) -> Sequence[ExecutionRecord]: ...


@dataclass(slots=True)
class ExecutionRecords:
    """Opens the database of the configuration's state folder, and shows its values as configured."""

    loaded: LoadedSettings
    _thread: DatabaseThread | None = None
    _database: Database | None = None

    async def __aenter__(self) -> ExecutionRecords:
        if has_database(self.loaded):
            folder = state_folder(self.loaded.settings)
            await anyio.to_thread.run_sync(settle_before_reading, folder)
            self._thread = DatabaseThread(folder)
            self._database = Database(folder)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.close()
        if self._database is not None:
            self._database.close()

    async def executions(self, limit: int | None, *, since: float = 0.0) -> list[ExecutionRecord]:
        """The newest ones that started since then, newest first; without `limit` all."""
        if self._thread is None:
            return []
        audit, journal = SqliteAudit(self._thread), self._journal(self._thread)
        found = {it.execution_id: it for it in await self._all(audit.executions, limit, since)}
        found |= {it.execution_id: self._shown(it) for it in await self._all(journal.executions, limit, since)}
        return sorted(found.values(), key=lambda it: it.started_at, reverse=True)[:limit]

    async def _all(self, read: ReadExecutions, limit: int | None, since: float) -> list[ExecutionRecord]:
        found: list[ExecutionRecord] = []
        before: float | None = None
        while limit is None or len(found) < limit:
            page = await read(self.principal, limit=min(limit or _PAGE, _PAGE), before=before)
            found += (it for it in page if it.started_at >= since)
            if len(page) < min(limit or _PAGE, _PAGE) or page[-1].started_at < since:
                break
            before = page[-1].started_at
        return found

    async def find(self, execution_id: ExecutionId) -> tuple[ExecutionRecord, list[CallRecord], str] | None:
        """The execution, its calls and its whole program, empty if that is not recorded; None if there is none."""
        if self._thread is None:
            return None
        journal = self._journal(self._thread)
        if (found := await journal.execution(self.principal, execution_id)) is not None:
            calls = list(await journal.calls(self.principal, execution_id))
            return self._shown(found), calls, found.code or ""
        audited = await read_execution(SqliteAudit(self._thread), self.principal, execution_id)
        return None if audited is None else (*audited, "")

    async def execution(self, execution_id: ExecutionId) -> tuple[ExecutionRecord, list[CallRecord], str]:
        """As `find`. Raises `CodemodeError` if there is none (any more)."""
        if (found := await self.find(execution_id)) is not None:
            return found
        raise CodemodeError(
            f"no execution {execution_id!r} is recorded (any more); `codemode-server executions list` shows those that "
            "are"
        )

    async def retries(self, execution_id: ExecutionId) -> dict[int, list[CallRetry]]:
        """When and why calls of an execution were tried again, by their numbers."""
        if self._database is None:
            return {}
        return await SqliteHistory(self._database).retries(self.principal, execution_id)

    async def waiting(self, found: ExecutionRecord, calls: Sequence[CallRecord]) -> frozenset[int]:
        """The numbers of the calls that were not sent, since a person has not answered or the program has not gone on
        with the answer."""
        if self._thread is None or found.status is not ExecutionStatus.WAITING:
            return frozenset()
        approvals = SqliteApprovals(self._thread, JournalCipher(state_folder(self.loaded.settings)))
        asked = {it.key: it for it in await approvals.of_execution(self.principal, found.execution_id)}
        return frozenset(it.call.seq for it in calls if it.call.key in asked and _is_unsent(it, asked[it.call.key]))

    def plan(self, code: str, calls: Sequence[CallRecord]) -> PlanReport:
        """The plan of a dry run, with its arguments if the configuration lets values be recorded."""
        if self.hides_arguments:
            code, calls = "", [replace(it, call=replace(it.call, arguments={})) for it in calls]
        return plan_report(calls, code, self._config.redactor)

    @property
    def hides_arguments(self) -> bool:
        return self._config.payloads != "all"

    def execution_json(self, it: ExecutionRecord) -> dict[str, Any]:
        return {
            "execution_id": it.execution_id,
            "kind": "dry run" if it.is_dry_run else it.kind.value,
            "applies": it.applies,
            "description": self._error(it.description),
            "status": it.status.value,
            "sandbox": it.level.value if it.level else None,
            "session": it.session.session_id,
            "started_at": local_time(it.started_at),
            "ended_at": local_time(it.ended_at) if it.ended_at else None,
            "milliseconds": None if it.milliseconds is None else round(it.milliseconds),
            "error": self._error(it.error),
            "code": it.code,
        }

    def row(self, it: ExecutionRecord) -> tuple[str, ...]:
        """Its line in a list."""
        level = it.level.value if it.level else f"none ({it.kind.value})"
        status = f"{it.status.value} (dry run)" if it.is_dry_run else it.status.value
        numbers = _number(it.calls), _number(it.milliseconds)
        description = clean_line(self._error(it.description) or "", 60)
        return it.execution_id, minutes(it.started_at), status, level, *numbers, description

    def call_json(self, it: CallRecord, retries: Sequence[CallRetry], *, is_waiting: bool = False) -> dict[str, Any]:
        return self.call_fields(it, is_waiting=is_waiting) | {
            "retries": [{"reason": one.reason.value, "after_ms": round(one.after_ms(it.started_at))} for one in retries]
        }

    def call_fields(self, it: CallRecord, *, is_waiting: bool = False) -> dict[str, Any]:
        """The call as one row of a table; `is_waiting`: what `waiting` found."""
        outcome, status = it.outcome, it.outcome.status.value if it.outcome else "unknown"
        error = outcome.error if outcome and not is_waiting and self._config.payloads == "all" else None
        return {
            "call": it.call.seq,
            "tool": clean_line(f"{it.call.server}.{it.call.tool}", 100),
            "started_at": local_time(it.started_at),
            "decision": it.decision.kind,
            "reason": clean_line(it.decision.reason, 100),
            "status": "waiting" if is_waiting else status,
            "milliseconds": round(outcome.milliseconds) if outcome else None,
            "error": self._error(error),
        }

    def call_with_values(self, it: CallRecord, retries: Sequence[CallRetry]) -> dict[str, Any]:
        """As `call_json`, with what the configuration lets be shown of arguments and result."""
        outcome, keep = it.outcome, self._config.payloads
        has_result = outcome is not None and outcome.error is None and not it.unreadable
        arguments = None if it.unreadable else payload(it.call.arguments, keep, self._config.redactor)
        result = payload(outcome.result, keep, self._config.redactor) if outcome and has_result else None
        return self.call_json(it, retries) | {
            "arguments": None if arguments is None else json.loads(arguments),
            "result": None if result is None else json.loads(result),
        }

    def _shown(self, it: ExecutionRecord) -> ExecutionRecord:
        """An execution of the journal, which has its code complete."""
        return replace(it, code=None if it.code is None else code_as_configured(it.code, self._config))

    def _error(self, error: str | None) -> str | None:
        return None if error is None else clean_line(self._config.redactor.visible(error), _MAX_ERROR_CHARACTERS)

    def _journal(self, thread: DatabaseThread) -> SqliteJournal:
        return SqliteJournal(thread, JournalCipher(state_folder(self.loaded.settings)))

    @property
    def _config(self) -> LiveConfig:
        return LiveConfig(self.loaded.settings, Redactor(self.loaded.secrets))

    @property
    def principal(self) -> Principal:
        return local_principal(self.loaded.settings)


def _is_unsent(it: CallRecord, approval: Approval) -> bool:
    if it.outcome is None:
        return approval.answer is None
    ended_at = it.started_at + it.outcome.milliseconds / 1_000
    is_before_answer = approval.answer is None or approval.answer.answered_at >= ended_at
    return it.outcome.status is CallStatus.CANCELLED and is_before_answer


def moment(seconds: float) -> str:
    """A time as the logs of sessions have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def minutes(seconds: float) -> str:
    """The time of the person with its zone: `2026-07-28 10:15 UTC`."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone():%Y-%m-%d %H:%M %Z}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
