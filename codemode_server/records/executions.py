"""Reads recorded executions, calls, questions and savings, and answers questions, for the commands and the pages.

Commands show values as `state.payloads` allows (those that only the audit still has: as it allowed when they ran); the
pages, which only the person sees, show all that the journal has. Neither shows secrets of the configuration. Everything
belongs to the local principal.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import anyio.to_thread

from codemode_server.config import LoadedSettings
from codemode_server.config.live import LiveConfig, local_principal
from codemode_server.config.loading import load_place
from codemode_server.config.settings import Settings
from codemode_server.domain.approvals import FOR_GOOD, REFUSED_SECONDS, Approval, ApprovalAnswer, ApprovalId
from codemode_server.domain.calls import CallOutcome, CallStatus
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.executions import CallRecord, ExecutionRecord, ExecutionStatus, PlanReport
from codemode_server.domain.history import HistoryPage, HistoryQuery
from codemode_server.domain.ids import ExecutionId, JsonValue
from codemode_server.executions.recording import code_as_configured
from codemode_server.features import create
from codemode_server.startup.stores import database_place, state_folder
from codemode_server.storage.approval_store import ApprovalStore
from codemode_server.storage.audit import Audit
from codemode_server.storage.cache import STATES, Cache
from codemode_server.storage.database import Database, PostgresAddress
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.history import History
from codemode_server.storage.interrupted import settle_before_reading
from codemode_server.storage.journal import Journal
from codemode_server.storage.journal_values import JournalCipher, Values
from codemode_server.storage.ownership import ownership
from codemode_server.storage.server_states import RunningProduct, ServerStates
from codemode_server.storage.sqlite import FILE_NAME, unavailable
from codemode_server.storage.tables import ALL_ROWS
from codemode_server.support.redaction import Payloads, payload

if TYPE_CHECKING:
    from codemode_server.features.savings.savings_store import SavingsStore

_MAX_ERROR_CHARACTERS = 2_000
_MAX_REASON_CHARACTERS = 500


class Records:
    """Opens the database of a configuration. Every method raises a `CodemodeError` with a message for the person."""

    def __init__(self, loaded: LoadedSettings, folder: Path | None = None, *, shows_all: bool = False) -> None:
        """`folder` is used in place of the configured state folder and database. `shows_all`: all values that the
        journal has, whatever `state.payloads` is."""
        self.loaded = loaded
        self.config = LiveConfig(loaded.settings, loaded.redactor)
        self.payloads: Payloads = "all" if shows_all else loaded.settings.state.payloads
        """What is shown of values."""
        self.principal = local_principal(loaded.settings)
        self._folder = folder or state_folder(loaded.settings)
        place = folder or database_place(loaded.settings)
        self.thread = DatabaseThread(place)
        self.database = Database(place)
        self._ownership = ownership(self.database, self._folder, is_shared=isinstance(place, PostgresAddress))
        cipher = JournalCipher(self._folder, loaded.settings.state.key)
        self.history = History(self.database, cipher)
        self.savings: SavingsStore | None = create("savings", self.database)
        self.audit = Audit(self.thread, reader=self.database)
        self._journal = Journal(self.thread, cipher, self.audit)
        self.stored_approvals = ApprovalStore(self.thread, cipher)
        self._server_states = ServerStates(Cache(self.database, self.thread, STATES), self._ownership)

    def present(self) -> LoadedSettings:
        """The configuration as its file is now, of which nothing may be started. Blocks."""
        place, has_password = self.loaded.place, self.loaded.settings.state.database_password is not None
        return self.loaded if place is None else load_place(place, require_trust=False, resolve=has_password)

    def running(self) -> list[RunningProduct]:
        """The products that run with this configuration, the newest first. Blocks."""
        return self._server_states.running(str(self.loaded.path or ""))

    def close(self) -> None:
        self.thread.close()
        self.database.close()

    async def search(self, query: HistoryQuery) -> HistoryPage:
        await self.settle()
        return await self.history.search(self.principal, replace(query, in_values=self.payloads == "all"))

    async def names(self, limit: int | None, *, since: float = 0.0) -> list[ExecutionId]:
        """The newest executions that started since then, newest first; without `limit` all."""
        await self.settle()
        return await self.history.names(self.principal, since, limit)

    async def execution(self, execution_id: ExecutionId) -> ExecutionRecord | None:
        found = await self._find(execution_id)
        return None if found is None else found[0]

    async def find(
        self, execution_id: ExecutionId, *, after: int = 0, limit: int = ALL_ROWS, values: Values = "all"
    ) -> tuple[ExecutionRecord, list[CallRecord], str] | None:
        """The execution, its calls after number `after`, and its whole program, empty if that is not recorded; None if
        there is none."""
        await self.settle()
        return await self._find(execution_id, after=after, limit=limit, values=values)

    async def _find(
        self, execution_id: ExecutionId, *, after: int = 0, limit: int = 0, values: Values = "none"
    ) -> tuple[ExecutionRecord, list[CallRecord], str] | None:
        record = await self._journal.execution(self.principal, execution_id)
        if record is None:
            return None
        part = {"after": after, "limit": limit}
        calls = await self._journal.calls(self.principal, execution_id, **part, values=values)
        code = record.recorded_code
        if record.code is not None:
            code = code_as_configured(record.code, self.payloads, self.config.redactor)
        return replace(record, code=code), calls, record.code or ""

    async def call(self, execution_id: ExecutionId, seq: int) -> CallRecord | None:
        found = await self._journal.calls(self.principal, execution_id, after=seq - 1, limit=1)
        return next((it for it in found if it.call.seq == seq), None)

    def values(self, it: CallRecord) -> tuple[str | None, str | None]:
        """Arguments and result of a call as JSON, as far as the configuration lets them be shown. Large ones block."""
        if it.unreadable:
            return None, None
        shown = partial(payload, keep=self.payloads, redactor=self.config.redactor)
        has_result = it.outcome is not None and it.outcome.error is None
        return shown(it.call.arguments), shown(it.outcome.result) if it.outcome and has_result else None

    def whole_values(self, it: CallRecord) -> dict[str, JsonValue]:
        """`arguments` and `result` of a call as far as they are there, without secrets. Large ones block."""
        found: dict[str, JsonValue] = {}
        if not it.unreadable:
            found["arguments"] = it.call.arguments
            if it.outcome is not None and it.outcome.error is None:
                found["result"] = _readable(it.outcome)
        return {name: self.config.redactor.value(value) for name, value in found.items()}

    async def waiting(self, record: ExecutionRecord, calls: Sequence[CallRecord]) -> frozenset[int]:
        """The numbers of the calls that were not sent, since a person or the program has not gone on."""
        if record.status is not ExecutionStatus.WAITING:
            return frozenset()
        asked = {it.key: it for it in await self.stored_approvals.of_execution(self.principal, record.execution_id)}
        return frozenset(it.call.seq for it in calls if it.call.key in asked and _is_unsent(it, asked[it.call.key]))

    def plan(self, code: str, calls: Sequence[CallRecord]) -> PlanReport | None:
        """The plan of a dry run, with its arguments if the configuration lets values be recorded."""
        if self.hides_arguments:
            code, calls = "", [replace(it, call=replace(it.call, arguments={})) for it in calls]
        report: PlanReport | None = create("plan_report", calls, code, self.config.redactor)
        return report

    @property
    def hides_arguments(self) -> bool:
        return self.payloads != "all"

    async def cancel(self, execution_id: ExecutionId) -> None:
        if not await self._journal.ask_to_cancel(self.principal, execution_id):
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
        """Without the answers for good where no file can get them."""
        return it if self.loaded.place is not None else replace(it, question=it.question.without_configuration())

    async def answer(self, approval_id: ApprovalId, answer: ApprovalAnswer) -> None:
        approval, stored = await self.stored_approvals.get(self.principal, approval_id), None
        may_be_approved = approval is not None and approval.may_be_approved(time.time())
        if approval is not None and (may_be_approved if answer.is_approved else approval.is_open(time.time())):
            answer = replace(answer, reason=self.config.redactor.line(answer.reason, _MAX_REASON_CHARACTERS))
            stored = await self.stored_approvals.answer(approval_id, answer, replaces_refusal=answer.is_approved)
        if stored is None or stored.answer != answer:
            raise CodemodeError(f"the question {approval_id} was answered or withdrawn meanwhile")
        if answer.is_approved and answer.scope in FOR_GOOD and self.loaded.place is not None:
            try:
                await anyio.to_thread.run_sync(create, "write_answer", self.loaded.place, stored.question, answer.scope)
            except CodemodeError as error:
                raise CodemodeError(
                    f"approved for this program only, since the answer could not be written: {error}"
                ) from error

    def masked(self, text: str | None, limit: int = _MAX_ERROR_CHARACTERS) -> str | None:
        """One line without the secrets of the configuration."""
        return None if text is None else self.config.redactor.line(text, limit)

    async def settle(self) -> None:
        """Record as interrupted what ran in products that were killed."""
        await anyio.to_thread.run_sync(settle_before_reading, self.database, self._ownership)


def has_database(settings: Settings) -> bool:
    """True if a product has made a database. Raises `JournalUnavailable` if none can be there, since a file is in the
    place of the state folder or above it, or its drive does not exist."""
    if settings.state.database is not None:
        return True
    path = state_folder(settings) / FILE_NAME
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
        folder = None
        if not has_database(loaded.settings):
            folder = Path(stack.enter_context(TemporaryDirectory()))
        yield stack.enter_context(closing(Records(loaded, folder=folder)))


def _readable(outcome: CallOutcome) -> JsonValue:
    """A result without the blocks that the guest makes its values of."""
    if outcome.encoding == "json" or not isinstance(outcome.result, list):
        return outcome.result
    fields = {"json": "value", "text": "text"}
    made = [it.get(fields.get(str(it.get("type")), ""), it) for it in outcome.result if isinstance(it, dict)]
    return made[0] if len(made) == 1 else made


def _is_unsent(it: CallRecord, approval: Approval) -> bool:
    if it.outcome is None:
        return approval.answer is None
    is_before_answer = approval.answer is None or approval.answer.answered_at >= (it.ended_at or 0.0)
    return it.outcome.status is CallStatus.CANCELLED and is_before_answer
