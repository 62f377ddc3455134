"""What the pages of `codemode-server ui` show and do, on the stores of the state folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from codemode_server.approved_rules import write_rule
from codemode_server.cli.page_failures import failure_text
from codemode_server.cli.page_products import PageProduct
from codemode_server.cli.permissions import KnownTools, arguments_of, explanation_text
from codemode_server.config import load
from codemode_server.config.description import masked
from codemode_server.config.live import local_principal
from codemode_server.domain.approvals import AnswerScope, Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord
from codemode_server.domain.history import CallSummary, HistoryPage, HistoryQuery
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.savings import Savings, TokenUsage
from codemode_server.executions.recording import code_as_configured
from codemode_server.first_listing import state_folder
from codemode_server.gateway.audit_history import read_execution
from codemode_server.gateway.policy.rules import PermissionRules
from codemode_server.redaction import payload
from codemode_server.storage.database import Database
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import settle_before_reading
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_approvals import SqliteApprovals
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_cancel_requests import SqliteCancelRequests
from codemode_server.storage.sqlite_history import MAX_CALLS, MAX_COUNTED_ROWS, SqliteHistory
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.storage.sqlite_savings import SqliteSavings
from codemode_server.tokens import estimate_tokens
from codemode_server.web.ui.records import (
    Action,
    CallValues,
    ExecutionDetail,
    Permissions,
    Rerun,
    RuleLine,
)

_MAX_ERROR_CHARACTERS = 2_000
_MAX_RERUNS = 2
_DAY = 86_400.0
_MAX_SERVERS, _MAX_EXECUTIONS = 100, 50
"""Rows of the page of savings."""
_T = TypeVar("_T")


class StoredRecords:
    """Implements `web.ui.records.Records` for the local principal. Programs and checks run in the task group."""

    def __init__(
        self, product: PageProduct, databases: tuple[Database, Database], thread: DatabaseThread, tasks: TaskGroup
    ) -> None:
        """Only this uses `databases`; there are two, so that a search does not wait for a sum."""
        database, sums = databases
        loaded = product.loaded
        self._product = product
        self._tasks = tasks
        self._principal = local_principal(loaded.settings)
        self._config = product.config
        cipher = JournalCipher(state_folder(loaded.settings))
        self._history = SqliteHistory(database)
        self._savings = SqliteSavings(sums)
        self._journal = SqliteJournal(thread, cipher)
        self._audit = SqliteAudit(thread)
        self._approvals = SqliteApprovals(thread, cipher)
        self._cancel_requests = SqliteCancelRequests(database, thread)
        self._settle = partial(settle_before_reading, state_folder(loaded.settings))
        self._reruns: dict[ExecutionId, Rerun] = {}

    async def search(self, query: HistoryQuery) -> HistoryPage:
        await _in_thread(self._settle)
        return await self._history.search(self._principal, query)

    async def execution(self, execution_id: ExecutionId, *, after: int = 0) -> ExecutionDetail | None:
        await _in_thread(self._settle)
        record = await self._journal.execution(self._principal, execution_id)
        if record is None:
            return await self._audited(execution_id, after)
        code = record.code
        shown = None if not code else code_as_configured(code, self._config)
        calls = await self._history.calls(self._principal, execution_id, after=after, limit=MAX_CALLS + 1)
        return ExecutionDetail(
            replace(record, code=shown, error=self._error(record.error), description=self._error(record.description)),
            is_code_whole=self._config.payloads == "all" and bool(code),
            code_tokens=estimate_tokens(code) if code else None,
            calls=calls[:MAX_CALLS],
            more_after=calls[MAX_CALLS - 1].seq if len(calls) > MAX_CALLS else None,
            waits=await self._history.waits(self._principal, execution_id),
            retries=await self._history.retries(self._principal, execution_id),
            can_run_again=bool(code),
            rerun=self._reruns.get(execution_id),
            usage=await self._savings.execution(self._principal, execution_id),
        )

    async def _audited(self, execution_id: ExecutionId, after: int) -> ExecutionDetail | None:
        found = await read_execution(self._audit, self._principal, execution_id)
        if found is None:
            return None
        record, every = found
        calls = [_summary(it) for it in every if it.call.seq > after]
        return ExecutionDetail(
            replace(record, error=self._error(record.error)),
            is_code_whole=self._config.payloads == "all" and bool(record.code),
            code_tokens=None,
            calls=calls[:MAX_CALLS],
            more_after=calls[MAX_CALLS - 1].seq if len(calls) > MAX_CALLS else None,
            waits=await self._history.waits(self._principal, execution_id),
            retries=await self._history.retries(self._principal, execution_id),
            can_run_again=False,
            usage=await self._savings.execution(self._principal, execution_id),
        )

    async def call(self, execution_id: ExecutionId, seq: int) -> CallValues | None:
        found = await self._journal.call(self._principal, execution_id, seq)
        if found is None:
            return None
        keep, redactor, outcome = self._config.payloads, self._config.redactor, found.outcome
        notes = {
            "all": "",
            "shapes": "The configuration lets only shapes of values be shown; `state.payloads: all` shows the values.",
            "none": "The configuration lets no values be shown; `state.payloads: all` shows them.",
        }
        shown = partial(payload, keep=keep, redactor=redactor)
        has_result = outcome is not None and outcome.error is None
        return CallValues(
            _summary(found),
            arguments=None if found.unreadable else await _in_thread(lambda: shown(found.call.arguments)),
            result=await _in_thread(lambda: shown(outcome.result)) if outcome and has_result else None,
            error=self._error(outcome.error) if outcome and outcome.error and keep == "all" else None,
            note=" ".join(filter(None, [found.unreadable, notes[keep]])),
        )

    def run_again(self, action: Action, execution_id: ExecutionId) -> None:
        if sum(it.is_running for it in self._reruns.values()) >= _MAX_RERUNS:
            raise CodemodeError(f"this page already runs {_MAX_RERUNS} programs again; wait until one has ended")
        if execution_id in self._reruns and self._reruns[execution_id].is_running:
            raise CodemodeError(f"this page already runs {execution_id} again")
        self._reruns[execution_id] = Rerun(action, is_running=True)
        self._tasks.start_soon(self._run_again, action, execution_id)

    async def _run_again(self, action: Action, execution_id: ExecutionId) -> None:
        try:
            text = await self._product.run_again(action, execution_id)
        except Exception as error:  # noqa: BLE001 - what a program does must not end the pages
            text = failure_text(error, f"running {execution_id} again", self._config.redactor)
        self._reruns[execution_id] = Rerun(action, is_running=False, text=text)

    async def cancel(self, execution_id: ExecutionId) -> None:
        if not await self._cancel_requests.request(self._principal, execution_id, time.time()):
            raise CodemodeError(f"no program {execution_id} of yours runs (any more)")

    async def approvals(self) -> Sequence[Approval]:
        found = await self._approvals.unanswered(self._principal)
        return [self._offered(it) for it in found if it.is_open(time.time())]

    async def open_questions(self) -> Sequence[tuple[ExecutionId, ApprovalId]]:
        return await self._history.open_questions(self._principal, time.time())

    async def approval(self, approval_id: ApprovalId) -> Approval | None:
        found = await self._approvals.get(self._principal, approval_id)
        return None if found is None else self._offered(found)

    def _offered(self, it: Approval) -> Approval:
        """Without the answer `always` where no file can get its rule."""
        return it if self._product.loaded.place is not None else replace(it, question=replace(it.question, rule=None))

    async def answer(self, approval_id: ApprovalId, answer: ApprovalAnswer) -> None:
        found = await self._approvals.get(self._principal, approval_id)
        stored = None
        if found is not None and found.is_open(time.time()):
            answer = replace(answer, reason=self._config.redactor.visible(answer.reason))
            stored = await self._approvals.answer(approval_id, answer)
        if stored is None or stored.answer != answer:
            raise CodemodeError(f"the question {approval_id} was answered or withdrawn meanwhile")
        if answer.is_approved and answer.scope is AnswerScope.ALWAYS and self._product.loaded.place is not None:
            try:
                await anyio.to_thread.run_sync(write_rule, self._product.loaded.place, stored.question)
            except CodemodeError as error:
                raise CodemodeError(
                    f"approved for this program only, since the rule could not be written: {error}"
                ) from error

    async def permissions(self) -> Permissions:
        decisions = tuple(await self._history.decisions(self._principal))
        rules, otherwise = await self._known(_rules)
        lines = tuple(
            RuleLine(text, sum(it.calls for it in decisions if _is_of(it.reason, source))) for text, source in rules
        )
        return Permissions(lines, otherwise, decisions, MAX_COUNTED_ROWS)

    async def savings(self, days: int) -> Savings:
        principal, since = self._principal, time.time() - days * _DAY
        store, mask = self._savings, self._config.redactor.text
        by_day = await store.days(principal, since, days + 1)
        return Savings(
            since,
            sum((it.usage for it in by_day), TokenUsage()),
            days=tuple(by_day),
            servers=tuple(
                replace(it, name=mask(it.name)) for it in await store.servers(principal, since, _MAX_SERVERS)
            ),
            executions=tuple(await store.executions(principal, since, _MAX_EXECUTIONS)),
        )

    async def explain(self, call: str, arguments: str) -> str:
        given = arguments_of(arguments, "the box of arguments") if arguments else None
        return await self._known(lambda known: masked(explanation_text(known, call, given), known.loaded))

    async def _known(self, read: Callable[[KnownTools], _T]) -> _T:
        """What the present configuration and the last run say; nothing is started."""
        path = self._product.loaded.path

        def known() -> _T:
            with KnownTools.of(load(path, require_trust=False, resolve=False)) as tools:
                return read(tools)

        return await anyio.to_thread.run_sync(known)

    def _error(self, error: str | None) -> str | None:
        return None if error is None else self._config.redactor.line(error, _MAX_ERROR_CHARACTERS)


def _summary(it: CallRecord) -> CallSummary:
    outcome = it.outcome
    return CallSummary(
        it.call.seq,
        it.call.server,
        it.call.tool,
        it.decision.kind,
        it.decision.reason,
        it.started_at,
        outcome.status if outcome else CallStatus.STARTED,
        it.ended_at,
        outcome.milliseconds if outcome else None,
        outcome.result_bytes if outcome else None,
    )


def _rules(known: KnownTools) -> tuple[list[tuple[str, str]], str]:
    """Each rule with what its decisions begin with, and what holds where none matches."""
    permissions = known.loaded.settings.permissions
    rules = [(masked(it.settings.text, known.loaded), it.source) for it in PermissionRules(permissions).rules]
    otherwise = f"preset {permissions.preset}" if permissions.preset else f"default {permissions.default}"
    return rules, f"Where no rule matches: {otherwise}"


def _is_of(reason: str, source: str) -> bool:
    """Whether a recorded reason is that of a rule; an approved call's reason names it too."""
    return source in reason


async def _in_thread(step: Callable[[], _T]) -> _T:
    return await anyio.to_thread.run_sync(step)
