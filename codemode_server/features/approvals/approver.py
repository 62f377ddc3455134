"""Asks the person about calls over all channels at once, and gives each call the first answer.

An answer that a channel gives, and one that another process stores (the command line), take the same way: the store has
it first, and what it has holds. So an answer outlives this process, and a program that runs again is not asked twice.
"""

from __future__ import annotations

import logging
import secrets
import shlex
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.to_thread

from codemode_server.calls.arguments import result_problem
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.targets import CallTarget, ToolTarget
from codemode_server.config.live import Caller, LiveConfig
from codemode_server.domain.approvals import (
    FOR_GOOD,
    NOBODY,
    AnswerScope,
    Approval,
    ApprovalAnswer,
    ApprovalId,
    ProgramTexts,
    Question,
)
from codemode_server.domain.calls import Allow, ApprovalDecision, Ask, CallOutcome, CallStatus, Deny, Recorded, ToolCall
from codemode_server.domain.errors import CodemodeError, JournalUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.features import provided
from codemode_server.features.approvals.elicitation import ElicitationChannel
from codemode_server.features.approvals.message import commands_of
from codemode_server.features.approvals.patterns import covers, spelling_of, write_answer
from codemode_server.features.approvals.question import definition_digest, done_so_far, question_of
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.support.text import clean_line

if TYPE_CHECKING:
    from codemode_server.app import App
    from codemode_server.storage.approval_store import ApprovalStore


class ApprovalChannel(Protocol):
    """One way to the person. The command line is none of these: it answers in the store, which is looked at."""

    async def ask(self, calls: ExecutionCalls, approval: Approval) -> ApprovalAnswer | None:
        """The answer, without `answered_at`, however long it takes; None if none comes this way. Cancelling it
        withdraws it."""


logger = logging.getLogger(__name__)

MAX_REFUSALS = 10
"""Questions of one program that the person refuses; then its further calls are refused without a question."""
MAX_OPEN = 50
"""Questions of all programs that are open at once; further calls wait."""
_MAX_RESULTS = 5
"""Results that don't fit which are entered for one call; a host may answer by itself."""
_LOOK_SECONDS = 0.5
"""How often answers of other processes are looked for while a question is open."""
_SCOPES = {
    AnswerScope.CALL: "for this call",
    AnswerScope.EXECUTION: "for the rest of this program",
    AnswerScope.SESSION: "for this session",
    AnswerScope.TOOL: "for this session",
    AnswerScope.READS: "for all that only reads",
    AnswerScope.ALWAYS: "always",
}


@dataclass(slots=True)
class _Open:
    approval: Approval
    spelling: str
    calls: ExecutionCalls
    is_settled: anyio.Event = field(default_factory=anyio.Event)
    failure: JournalUnavailable | None = None

    def note_refusal(self) -> None:
        """Later calls of the program that say the same are refused as well."""
        if self.approval.answer is not None and self.approval.answer.is_refusal:
            self.calls.approvals.refusals[self.spelling] = self.approval


def person_approver(app: App) -> PersonApprover:
    """The approver of a product, with every channel that features provide."""
    place = app.loaded.place
    return PersonApprover(
        app.stores.approvals,
        app.config,
        (ElicitationChannel(app.config), *(it(app.config) for it in provided("approval_channel"))),
        texts_of=lambda execution_id: app.executions.texts_of(execution_id),
        sources_of=app.sources.labelled,
        write_answer=None if place is None else partial(write_answer, place),
    )


@dataclass(slots=True)
class PersonApprover:
    """Asks the person for the gateway. Answers of other processes are noticed while it is open."""

    store: ApprovalStore
    config: LiveConfig
    channels: Sequence[ApprovalChannel]
    texts_of: Callable[[ExecutionId], ProgramTexts] = lambda _: ProgramTexts()
    sources_of: Callable[[Caller], Awaitable[tuple[str, ...]]] | None = None
    write_answer: Callable[[Question, AnswerScope], None] | None = None
    """Writes an answer for good into the configuration, in a thread; without it none is offered."""
    clock: Callable[[], float] = time.time
    _open: dict[ApprovalId, _Open] = field(default_factory=dict)
    _places: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(MAX_OPEN))
    _has_open: anyio.Event = field(default_factory=anyio.Event)
    _is_ending: bool = False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """On leaving, open questions stay in the store: their programs may run again."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_for_answers)
            try:
                yield
            finally:
                self._is_ending = True
                tasks.cancel_scope.cancel()

    @property
    def waiting(self) -> int:
        return len(self._open)

    async def approve(
        self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask, on_question: Callable[[], None]
    ) -> ApprovalDecision:
        spelling = await run_sized(is_large(call.arguments), spelling_of, call, target)
        async with calls.approvals.asking[spelling], calls.approvals.places, self._places:
            if calls.approvals.refused >= MAX_REFUSALS:
                return Deny(f"the user has refused {MAX_REFUSALS} calls of this program, and is not asked any more")
            approval = await self._approval(calls, call, target, ask)
            known = await self._remembered(approval) or await self._refused_before(calls, approval, spelling)
            if known is not None:
                return _decision(calls, known, is_repeated=True)
            form = approval.question.result
            for _ in range(_MAX_RESULTS):
                approval = await self.store.ask(approval)
                calls.approvals.questions[call.seq] = _commands(calls, approval)
                calls.approvals.for_good[call.seq] = approval.question.for_good
                on_question()
                decision = await self._asked(calls, _Open(approval, spelling, calls))
                if not (problem := _result_problem(target, decision)):
                    return decision
                await self.store.withdraw(approval.approval_id, is_answered=True)
                question = replace(
                    approval.question, result=f"{form} (not accepted: {self.config.redactor.text(problem)})"
                )
                approval = replace(approval, approval_id=_new_id(), question=question, answer=None)
            said = f"the user says that it arrived, and entered no result that fits: {form}"
            return Deny(said, "Tell the user; a later resume asks them again.")

    async def _approval(self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask) -> Approval:
        texts, now = self.texts_of(calls.execution_id), self.clock()
        is_long = is_large(call.arguments) or texts.size > 2_000
        has_session = not calls.caller.session.is_ephemeral
        build = partial(question_of, texts=texts, done=done_so_far(calls), has_session=has_session)
        question = await run_sized(is_long, build, call, target, ask, self.config)
        sources = () if self.sources_of is None else await self.sources_of(calls.caller)
        question = replace(question, sources=tuple(map(self.config.redactor.text, sources)))
        if self.write_answer is None or not calls.caller.is_local:  # the configuration is not theirs
            question = question.without_configuration()
        return Approval(
            _new_id(),
            calls.execution_id,
            calls.caller.principal,
            calls.caller.session.session_id,
            call.key,
            question,
            now,
            now + self.config.settings.approvals.timeout,
            await run_sized(is_long, definition_digest, target),
        )

    async def _refused_before(self, calls: ExecutionCalls, asked: Approval, spelling: str) -> Approval | None:
        """The question about an equal call of this program that the person refused, with the answer that holds now."""
        if (refused := calls.approvals.refusals.get(spelling)) is None:
            return None
        now = await self.store.get(refused.principal, refused.approval_id) or refused
        if now.answer is None or not now.answer.is_approved:
            return now
        is_first = calls.approvals.refusals.pop(spelling, None) is not None  # it holds for one call
        is_same = (now.question.reason, now.definition) == (asked.question.reason, asked.definition)
        return now if is_first and is_same else None

    async def _remembered(self, approval: Approval) -> Approval | None:
        earlier = await self.store.remembered(approval.principal, approval.session_id)
        return next((it for it in earlier if covers(it, approval)), None)

    async def _asked(self, calls: ExecutionCalls, one: _Open) -> ApprovalDecision:
        approval = one.approval
        if approval.answer is not None:
            one.note_refusal()
        else:
            self._open[approval.approval_id] = one
            self._has_open.set()
            try:
                # An answer that covers it may have come while it was stored.
                if (known := await self._remembered(approval)) is not None:
                    await self._settle_covered(known)
                else:
                    await self._ask_everywhere(calls, one)
            finally:
                del self._open[approval.approval_id]
                if one.approval.answer is None:
                    await self._leave(calls, approval)
        if one.approval.answer is not None and not one.approval.answer.is_approved:
            calls.approvals.refused += 1
            if approval.question.is_unanswered:  # a later resume asks again
                await self.store.withdraw(approval.approval_id, is_answered=True)
        return _decision(calls, one.approval)

    async def _ask_everywhere(self, calls: ExecutionCalls, one: _Open) -> None:
        """Return once there is an answer; what is still asked then is withdrawn."""
        async with anyio.create_task_group() as tasks:
            for channel in self.channels:
                tasks.start_soon(self._ask_over, channel, calls, one)
            await one.is_settled.wait()
            tasks.cancel_scope.cancel()
        if one.failure is not None:
            raise one.failure

    async def _ask_over(self, channel: ApprovalChannel, calls: ExecutionCalls, one: _Open) -> None:
        try:
            if (answer := await channel.ask(calls, one.approval)) is not None:
                await self._answered_here(one, answer)
        except JournalUnavailable as error:
            one.failure = error
            one.is_settled.set()
        except Exception:  # the other channels are still there
            logger.exception("the question %s could not be asked in one way", one.approval.approval_id)

    async def _answered_here(self, one: _Open, answer: ApprovalAnswer) -> None:
        answer = replace(answer, answered_at=self.clock())
        with anyio.CancelScope(shield=True):  # the person has answered, whatever becomes of the program
            stored = await self.store.answer(one.approval.approval_id, answer)
            if stored is not None and stored.answer == answer and answer.scope in FOR_GOOD:
                await self._write(stored.question, answer.scope)
        await self._settle(one, stored or replace(one.approval, answer=answer))

    async def _write(self, question: Question, scope: AnswerScope) -> None:
        if self.write_answer is None or scope not in question.scopes:
            return
        try:
            await anyio.to_thread.run_sync(self.write_answer, question, scope)
        except (CodemodeError, OSError) as error:
            logger.warning("your answer could not be written; %s does the same: %s", question.for_good, error)

    async def _settle(self, one: _Open, answered: Approval) -> None:
        """Hand the answer to its call, and to those that it covers as well."""
        one.approval = answered
        one.note_refusal()
        one.is_settled.set()
        await self._settle_covered(answered)

    async def _settle_covered(self, given: Approval) -> None:
        if given.answer is None:
            return
        for other in [it for it in self._open.values() if not it.is_settled.is_set()]:
            if not covers(given, other.approval):
                continue
            answer = replace(given.answer, scope=AnswerScope.CALL, reason="")
            stored = await self.store.answer(other.approval.approval_id, answer)
            other.approval = stored or replace(other.approval, answer=answer)
            other.is_settled.set()

    async def _leave(self, calls: ExecutionCalls, approval: Approval) -> None:
        """The program has ended without an answer."""
        if self._is_ending or calls.approvals.outlive_program:
            return
        with anyio.CancelScope(shield=True):
            try:
                await self.store.withdraw(approval.approval_id)
            except JournalUnavailable as error:
                logger.warning("the question %s stays until its time has passed: %s", approval.approval_id, error)

    async def _look_for_answers(self) -> None:
        """Notice answers of other processes, and questions whose time has passed, as long as any is open."""
        while True:
            await self._has_open.wait()
            if not self._open:
                self._has_open = anyio.Event()
                continue
            await anyio.sleep(_LOOK_SECONDS)
            try:
                await self._look_once()
            except JournalUnavailable as error:
                logger.debug("answers can't be looked for: %s", error)

    async def _look_once(self) -> None:
        now = self.clock()
        for late in [it for it in self._open.values() if it.approval.answer is None and now >= it.approval.expires_at]:
            answer = ApprovalAnswer(False, channel=NOBODY, answered_at=now)
            stored = await self.store.answer(late.approval.approval_id, answer)
            await self._settle(late, stored or replace(late.approval, answer=answer))
        for answered in await self.store.answered(list(self._open)):
            one = self._open.get(answered.approval_id)
            if one is not None and not one.is_settled.is_set():
                await self._settle(one, answered)


def _new_id() -> ApprovalId:
    return ApprovalId(f"a{secrets.token_hex(4)}")


def _result_problem(target: CallTarget, decision: ApprovalDecision) -> str:
    """Why the program can't have the result that a person entered; empty if it can."""
    if isinstance(decision, Recorded) and isinstance(target, ToolTarget) and not target.is_raw:
        return result_problem(target.tool, decision.outcome.result)
    return ""


def _decision(calls: ExecutionCalls, approval: Approval, *, is_repeated: bool = False) -> ApprovalDecision:
    """Converts an answer to a decision, in words for the program and the records: the person's reason without secrets
    and known values. `is_repeated`: it was given to an earlier call."""
    answer, is_unanswered = approval.answer, approval.question.is_unanswered
    if answer is None:
        return Deny("the program ended before the user answered")
    if answer.channel == NOBODY:
        return Deny("it needs the user's approval, and nobody answered in time (approvals.timeout)")
    if not answer.is_approved:
        reason = calls.caller.redactor.visible(answer.reason)
        said = "the user gave it up" if is_unanswered else "the user refused it"
        said += f": {reason}" if reason else ""
        asked = approval.question.reason
        if asked.startswith("rule ") and (why := asked.partition("): ")[2]):
            said += f" (asked because: {clean_line(why, 100)})"
        if is_unanswered:
            return Deny(said, "Tell the user; a later resume asks them again.")
        if is_repeated:
            return Deny(f"{said}, and is not asked again", f"Only the user can allow it: {_commands(calls, approval)}")
        return Deny(said)
    if answer.scope is AnswerScope.ARRIVED:
        outcome = CallOutcome(CallStatus.SUCCEEDED, 0.0, result=answer.result)
        said = f"the user says that it arrived ({answer.channel}, question {approval.approval_id})"
        return Recorded(outcome, said, is_assumed=True)
    where = f"{answer.channel}, {_SCOPES[answer.scope]}, question {approval.approval_id}"
    return Allow(f"approved by the user ({where}): {approval.question.reason}")


def _commands(calls: ExecutionCalls, approval: Approval) -> str:
    """The commands that answer a question; who is served over HTTP can't run them."""
    commands = commands_of(approval)
    if calls.caller.is_local:
        return commands
    name = shlex.quote(calls.caller.principal.principal_id)
    return f"by whoever runs codemode-server, with CODEMODE_PRINCIPAL={name}: {commands}"
