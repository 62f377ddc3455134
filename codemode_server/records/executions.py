"""Reads recorded executions, calls, questions and savings, and answers questions, for the commands and the pages.

Values are shown as `state.payloads` allows (those that only the audit still has: as it allowed when they ran), without
the secrets of the configuration. Everything belongs to the local principal.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread

from codemode_server.calls.audit import read_execution
from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.config.loading import load_place
from codemode_server.domain.approvals import REFUSED_SECONDS, AnswerScope, Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.calls import CallStatus
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, PlanReport
from codemode_server.domain.history import ApprovalWait, CallRetry, CallSummary, HistoryPage, HistoryQuery
from codemode_server.domain.ids import ExecutionId
from codemode_server.domain.savings import TokenUsage
from codemode_server.executions.recording import code_as_configured
from codemode_server.features.approvals.approved_rules import write_rule
from codemode_server.features.approvals.sqlite_approvals import SqliteApprovals, SqliteCancelRequests
from codemode_server.features.dry_run.plan_report import plan_report
from codemode_server.features.savings.sqlite_savings import SqliteSavings
from codemode_server.startup.stores import state_folder
from codemode_server.storage.database import FILE_NAME, Database, unavailable
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.interrupted import settle_before_reading
from codemode_server.storage.journal_values import JournalCipher
from codemode_server.storage.sqlite_audit import SqliteAudit
from codemode_server.storage.sqlite_history import MAX_CALLS, SqliteHistory
from codemode_server.storage.sqlite_journal import SqliteJournal
from codemode_server.support.redaction import payload
from codemode_server.support.tokens import estimate_tokens

_MAX_ERROR_CHARACTERS = 2_000
_MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class ExecutionDetail:
    """One execution with a page of its calls, none of whose values is decrypted."""

    record: ExecutionRecord
    is_code_whole: bool
    """True if `record.code` is the program, and not what stands for it."""
    code_tokens: int | None
    """About how many tokens the model wrote."""
    calls: Sequence[CallSummary]
    more_after: int | None
    """The number of the last call that is shown, if there are more."""
    waits: dict[int, ApprovalWait]
    retries: dict[int, list[CallRetry]]
    can_run_again: bool
    """True if the journal still has the program."""
    usage: TokenUsage | None = None
    """The tokens of the exchanges with the host; None if none is counted (any more)."""


@dataclass(frozen=True, slots=True)
class CallValues:
    """Arguments and result of one call as JSON, as far as the configuration lets them be shown."""

    call: CallSummary
    arguments: str | None
    result: str | None
    error: str | None
    note: str
    """Why something is missing, or stands for the values."""


_NOTES = {
    "all": "",
    "shapes": "The configuration lets only shapes of values be shown; `state.payloads: all` shows the values.",
    "none": "The configuration lets no values be shown; `state.payloads: all` shows them.",
}


class Records:
    """Opens the database of the configuration's state folder. Every method raises a `CodemodeError` with a message for
    the person if it can't do what it should."""

    def __init__(self, loaded: LoadedSettings, config: LiveConfig | None = None, *, folder: Path | None = None) -> None:
        self.loaded = loaded
        self.config = config or LiveConfig(loaded.settings, loaded.redactor)
        self.principal = local_principal(loaded.settings)
        self._folder = folder or state_folder(loaded.settings)
        self.thread = DatabaseThread(self._folder)
        self.database = Database(self._folder)
        self._sums = Database(self._folder)  # so that a search does not wait for a sum
        cipher = JournalCipher(self._folder)
        self.history = SqliteHistory(self.database)
        self.savings = SqliteSavings(self._sums)
        self._journal = SqliteJournal(self.thread, cipher)
        self.audit = SqliteAudit(self.thread)
        self.stored_approvals = SqliteApprovals(self.thread, cipher)
        self._cancel_requests = SqliteCancelRequests(self.database, self.thread)

    def present(self) -> LoadedSettings:
        """The configuration as its file is now, of which nothing may be started. Blocks."""
        place = self.loaded.place
        return self.loaded if place is None else load_place(place, require_trust=False, resolve=False)

    def close(self) -> None:
        self.thread.close()
        self.database.close()
        self._sums.close()

    async def search(self, query: HistoryQuery) -> HistoryPage:
        await self._settle()
        return await self.history.search(self.principal, query)

    async def names(self, limit: int | None, *, since: float = 0.0) -> list[ExecutionId]:
        """The newest executions that started since then, newest first; without `limit` all."""
        await self._settle()
        return await self.history.names(self.principal, since, limit)

    async def execution(self, execution_id: ExecutionId) -> ExecutionRecord | None:
        """One execution; None if there is none (any more)."""
        if (record := await self._journal.execution(self.principal, execution_id)) is not None:
            return self._shown(record)
        audited = await read_execution(self.audit, self.principal, execution_id)
        return None if audited is None else audited[0]

    async def find(self, execution_id: ExecutionId) -> tuple[ExecutionRecord, list[CallRecord], str] | None:
        """The execution, its calls and its whole program, empty if that is not recorded; None if there is none."""
        await self._settle()
        if (record := await self._journal.execution(self.principal, execution_id)) is not None:
            calls = list(await self._journal.calls(self.principal, execution_id))
            return self._shown(record), calls, record.code or ""
        audited = await read_execution(self.audit, self.principal, execution_id)
        return None if audited is None else (*audited, "")

    async def detail(self, execution_id: ExecutionId, *, after: int = 0) -> ExecutionDetail | None:
        """One execution with its calls after number `after`."""
        await self._settle()
        record = await self._journal.execution(self.principal, execution_id)
        if record is not None:
            code = record.code
            calls = list(await self.history.calls(self.principal, execution_id, after=after, limit=MAX_CALLS + 1))
            record = self._shown(record)
        else:
            audited = await read_execution(self.audit, self.principal, execution_id)
            if audited is None:
                return None
            record, code = audited[0], None
            calls = [_summary(it) for it in audited[1] if it.call.seq > after]
        return ExecutionDetail(
            replace(record, error=self.masked(record.error), description=self.masked(record.description)),
            is_code_whole=self.config.payloads == "all" and bool(record.code),
            code_tokens=estimate_tokens(code) if code else None,
            calls=calls[:MAX_CALLS],
            more_after=calls[MAX_CALLS - 1].seq if len(calls) > MAX_CALLS else None,
            waits=await self.history.waits(self.principal, execution_id),
            retries=await self.retries(execution_id),
            can_run_again=bool(code),
            usage=await self.savings.execution(self.principal, execution_id),
        )

    async def call(self, execution_id: ExecutionId, seq: int) -> CallValues | None:
        """One call, decrypted."""
        record = await self._journal.call(self.principal, execution_id, seq)
        if record is None:
            return None
        keep, outcome = self.config.payloads, record.outcome
        shown = partial(payload, keep=keep, redactor=self.config.redactor)
        has_result = outcome is not None and outcome.error is None
        return CallValues(
            _summary(record),
            arguments=None
            if record.unreadable
            else await anyio.to_thread.run_sync(lambda: shown(record.call.arguments)),
            result=await anyio.to_thread.run_sync(lambda: shown(outcome.result)) if outcome and has_result else None,
            error=self.masked(outcome.error) if outcome and outcome.error and keep == "all" else None,
            note=" ".join(filter(None, [record.unreadable, _NOTES[keep]])),
        )

    async def retries(self, execution_id: ExecutionId) -> dict[int, list[CallRetry]]:
        """When and why calls of an execution were tried again, by their numbers."""
        return await self.history.retries(self.principal, execution_id)

    async def waiting(self, record: ExecutionRecord, calls: Sequence[CallRecord]) -> frozenset[int]:
        """The numbers of the calls that were not sent, since a person has not answered or the program has not gone on
        with the answer."""
        if record.status is not ExecutionStatus.WAITING:
            return frozenset()
        asked = {it.key: it for it in await self.stored_approvals.of_execution(self.principal, record.execution_id)}
        return frozenset(it.call.seq for it in calls if it.call.key in asked and _is_unsent(it, asked[it.call.key]))

    def plan(self, code: str, calls: Sequence[CallRecord]) -> PlanReport:
        """The plan of a dry run, with its arguments if the configuration lets values be recorded."""
        if self.hides_arguments:
            code, calls = "", [replace(it, call=replace(it.call, arguments={})) for it in calls]
        return plan_report(calls, code, self.config.redactor)

    @property
    def hides_arguments(self) -> bool:
        return self.config.payloads != "all"

    async def cancel(self, execution_id: ExecutionId) -> None:
        """Ask the product that runs an execution to cancel it."""
        if not await self._cancel_requests.request(self.principal, execution_id, time.time()):
            raise CodemodeError(f"no program {execution_id} of yours runs (any more)")

    async def approvals(self) -> list[Approval]:
        """The questions that can be answered now, oldest first."""
        every = await self.stored_approvals.unanswered(self.principal)
        return [self._offered(it) for it in every if it.is_open(time.time())]

    async def refusals(self) -> list[Approval]:
        """The questions of the last day that the person refused, which may still be approved; newest first."""
        refused = await self.stored_approvals.refused(self.principal, since=time.time() - REFUSED_SECONDS)
        return [self._offered(it) for it in refused]

    async def approval(self, approval_id: ApprovalId) -> Approval | None:
        approval = await self.stored_approvals.get(self.principal, approval_id)
        return None if approval is None else self._offered(approval)

    def _offered(self, it: Approval) -> Approval:
        """Without the answer `always` where no file can get its rule."""
        return it if self.loaded.place is not None else replace(it, question=replace(it.question, rule=None))

    async def answer(self, approval_id: ApprovalId, answer: ApprovalAnswer) -> None:
        """Answer a question that is open; `always` writes its rule into the configuration."""
        approval, stored = await self.stored_approvals.get(self.principal, approval_id), None
        may_be_approved = approval is not None and approval.may_be_approved(time.time())
        if approval is not None and (may_be_approved if answer.is_approved else approval.is_open(time.time())):
            answer = replace(answer, reason=self.config.redactor.line(answer.reason, _MAX_REASON_CHARACTERS))
            stored = await self.stored_approvals.answer(approval_id, answer, replaces_refusal=answer.is_approved)
        if stored is None or stored.answer != answer:
            raise CodemodeError(f"the question {approval_id} was answered or withdrawn meanwhile")
        if answer.is_approved and answer.scope is AnswerScope.ALWAYS and self.loaded.place is not None:
            try:
                await anyio.to_thread.run_sync(write_rule, self.loaded.place, stored.question)
            except CodemodeError as error:
                raise CodemodeError(
                    f"approved for this program only, since the rule could not be written: {error}"
                ) from error

    def masked(self, text: str | None, limit: int = _MAX_ERROR_CHARACTERS) -> str | None:
        """One line without the secrets of the configuration."""
        return None if text is None else self.config.redactor.line(text, limit)

    def _shown(self, it: ExecutionRecord) -> ExecutionRecord:
        return replace(it, code=None if it.code is None else code_as_configured(it.code, self.config))

    async def _settle(self) -> None:
        await anyio.to_thread.run_sync(settle_before_reading, self._folder)


def _has_database(folder: Path) -> bool:
    """True if a product has made a database there. Raises `JournalUnavailable` if none can be there, since a file is in
    the place of the state folder or above it, or its drive does not exist."""
    path = folder / FILE_NAME
    above = next((place for place in path.parents if os.path.lexists(place)), None)
    if above is None:
        raise unavailable(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if not above.is_dir():
        raise unavailable(path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    return path.exists()


@contextmanager
def stored_records(loaded: LoadedSettings) -> Generator[Records]:
    """The records, closed with the context; empty ones that are nowhere kept, if no product has made a database yet."""
    with ExitStack() as stack:
        folder = state_folder(loaded.settings)
        if not _has_database(folder):
            folder = Path(stack.enter_context(TemporaryDirectory()))
        yield stack.enter_context(closing(Records(loaded, folder=folder)))


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


def _is_unsent(it: CallRecord, approval: Approval) -> bool:
    if it.outcome is None:
        return approval.answer is None
    ended_at = it.started_at + it.outcome.milliseconds / 1_000
    is_before_answer = approval.answer is None or approval.answer.answered_at >= ended_at
    return it.outcome.status is CallStatus.CANCELLED and is_before_answer
