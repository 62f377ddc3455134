"""The path of every call, from its decision to its outcome; `CallPipeline.run` lists the steps in order.

Guardrails see a call before it gets its key, and may change its arguments: all that follows is about what is sent.
The permissions decide before the arguments are checked, so the schema of a refused tool is never explained. A person
is asked after that, so that nobody approves a call that can't be sent. Once the person has answered, and if the
configuration is edited while a call waits for its server, the permissions decide again before the call is sent. A call
is recorded before it is sent, and a call that can't be recorded is not sent. Calls that are refused or invalid are
recorded when they end. Everything else that follows a call subscribes to `gateway.events`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from codemode_server.calls.audit import MAX_ERROR_CHARACTERS
from codemode_server.calls.call_attempt import CallAttempt, status_of
from codemode_server.calls.call_audit import MAX_INPUT_REQUESTS
from codemode_server.calls.call_input import CallInput
from codemode_server.calls.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallBegan,
    CallEnded,
    CallEvents,
    CallInputRequested,
    CallRetried,
    CallSending,
)
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.policy.policy import joined
from codemode_server.calls.policy.refusals import require_not_denied
from codemode_server.calls.results import MAX_LINKS, NO_RESULT, ResultSummary, linked_uris, summarise
from codemode_server.calls.targets import MAX_OUTDATED, CallTarget, send, title_of
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import (
    ApprovalDecision,
    Ask,
    CallOutcome,
    CallStatus,
    Capture,
    Deny,
    Recorded,
    RetryReason,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.errors import (
    CallError,
    DecisionOutdated,
    ExecutionError,
    JournalUnavailable,
    SignInRequired,
    ToolFailed,
    UpstreamUnavailable,
)
from codemode_server.domain.input_requests import InputRequest
from codemode_server.domain.tools import Effect
from codemode_server.features.dry_run.placeholders import (
    CHANGED,
    capture,
    derives_from_placeholder,
    has_to_capture,
    placeholder_reply,
)
from codemode_server.features.guardrails.guarded_calls import CallGuard
from codemode_server.features.privacy.call_privacy import CallPrivacy
from codemode_server.features.privacy.release import naming_release
from codemode_server.features.resume.resumed_calls import (
    decision_after,
    departure_of,
    naming_departure,
    recorded_reply,
    with_departure,
)
from codemode_server.features.sign_in.sign_in_offers import OfferOutcome, SignInOffers
from codemode_server.sandbox.contract import Reply
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.support.redaction import payload, recorded_text
from codemode_server.upstreams.progress import CallProgress

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_journal import SqliteJournal
    from codemode_server.upstreams.pool import UpstreamPool

Approve = Callable[[ExecutionCalls, ToolCall, CallTarget, Ask, Callable[[], None]], Awaitable[ApprovalDecision]]
"""Asks the person about one call, however long it takes; a time that has passed is a `Deny`. `Recorded`: the attempt of
an earlier run arrived. The function is called before the person is asked, and not at all if an earlier answer holds for
this call too. Cancelling it withdraws the question. Neither a program nor the model has a way to it."""


class CallPipeline:
    """Runs calls, many at once; all state of a call is in its `CallAttempt` and the `ExecutionCalls`."""

    def __init__(
        self,
        *,
        upstreams: UpstreamPool,
        journal: SqliteJournal,
        events: CallEvents,
        config: LiveConfig,
        guard: CallGuard,
        newest: Callable[[CallTarget], Awaitable[CallTarget]],
        approve: Approve,
        sign_in_offers: SignInOffers | None,
        privacy: CallPrivacy,
    ) -> None:
        """`newest` gives a target as the catalog has it now. Without `sign_in_offers`, calls to a server that needs a
        sign-in just fail."""
        self._upstreams = upstreams
        self._journal = journal
        self._events = events
        self._config = config
        self._guard = guard
        self._newest = newest
        self._ask_person = approve
        self._sign_in_offers = sign_in_offers
        self._privacy = privacy

    async def run(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Reply:
        """Make one call for an execution and return what the program receives, or without a program the host.

        Raises:
            CallError: the call did not succeed; the message is for the program.
            ExecutionError: the program has to be ended.
            JournalUnavailable: the call could not be recorded, so it was not sent, or its outcome could not.
        """
        attempt = await self._begin(calls, target, arguments)
        try:
            require_not_denied(title_of(target), attempt.decision)
            reply = await self._guarded_result(attempt)
            reply, result = await self._received(attempt, reply)
        except CallError as error:
            message = await self._privacy.error_text(calls, target, error)
            await self._end(attempt, status_of(error), error=message)
            raise type(error)(message) from error
        except ExecutionError as error:
            await self._end(attempt, CallStatus.INVALID, error=str(error))
            raise
        except JournalUnavailable as error:
            self._publish_end(attempt, CallOutcome(CallStatus.INVALID, attempt.milliseconds, error=str(error)))
            raise
        except BaseException:
            may_have_acted = attempt.is_recorded and attempt.target.effect is not Effect.READS
            unknown = f"; whether tool {attempt.target.raw_name!r} acted is not known" if may_have_acted else ""
            text = f"no answer before the program stopped waiting{unknown}"
            await self._end(attempt, CallStatus.CANCELLED, error=text)
            raise
        status = CallStatus.FAILED if result.marked_error else CallStatus.SUCCEEDED
        status = CallStatus.CAPTURED if isinstance(attempt.decision, Capture) else status
        await self._end(attempt, status, reply, result, error=result.marked_error)
        return reply

    async def _begin(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> CallAttempt:
        began_at, seq, server, tool = time.perf_counter(), calls.next_seq(), target.server.raw_name, target.raw_name
        has_many = is_large(arguments)
        derives = bool(calls.captured) and await run_sized(has_many, derives_from_placeholder, calls, arguments)
        is_captured = has_to_capture(calls, target, derives=derives)
        guarded = await self._guard.before(calls, target, arguments)
        release = await self._privacy.release(calls, target, guarded.arguments)
        if release is not None:
            guarded = await self._guard.with_values(calls, target, guarded, release.arguments)
        if guarded.arguments is not arguments:
            arguments, has_many = guarded.arguments, is_large(guarded.arguments)
        digest = await run_sized(has_many, arguments_digest, arguments)
        call = ToolCall(calls.execution_id, seq, server, tool, arguments, calls.next_key(server, tool, digest))
        is_made = calls.resumed is not None and calls.resumed.has_answer(call)
        also = self._privacy.restriction(target, release)
        decision = self._guard.decide(calls, target, guarded, also=also, is_made=is_made, is_captured=is_captured)
        revision = self._config.revision
        if is_captured:
            decision = capture(calls, call, target, decision)
        decision, departure = decision_after(calls, call, target, naming_release(decision, release))
        shown = await run_sized(has_many, payload, arguments, self._config.payloads, calls.context.redactor)
        self._events.publish(CallBegan(calls, call, target, decision, shown))
        return CallAttempt(
            calls=calls,
            call=call,
            target=target,
            decision=decision,
            revision=revision,
            began_at=began_at,
            is_large=has_many,
            guarded=guarded,
            release=release,
            departure=departure,
            derives=derives,
        )

    async def _guarded_result(self, attempt: CallAttempt) -> Reply:
        """The result; an error of the upstream as the guardrails leave it, without secrets."""
        try:
            return await self._result(attempt)
        except ToolFailed as error:
            calls, target, arguments = attempt.calls, attempt.target, attempt.call.arguments
            masked = type(error)(await self._privacy.error_text(calls, target, error))
            raise await self._guard.after_failure(calls, target, arguments, masked) from error

    async def _result(self, attempt: CallAttempt) -> Reply:
        if isinstance(attempt.decision, Recorded):
            return recorded_reply(attempt.decision.outcome)
        if not attempt.derives:  # a placeholder may be of another type than the result will be
            await attempt.check_arguments()
        if isinstance(attempt.decision, Capture):
            return placeholder_reply(attempt.call, attempt.target)
        departure = await departure_of(attempt.calls, attempt.call, attempt.target)
        if departure is not None:
            attempt.decision = with_departure(attempt.decision, departure)
            attempt.departure = departure if attempt.departure is None else joined([attempt.departure, departure])
        await self._approve(attempt)
        if isinstance(attempt.decision, Recorded):
            return recorded_reply(attempt.decision.outcome)
        progress = self._progress(attempt)
        self._events.publish(CallSending(attempt.calls, attempt.call, attempt.target, progress))
        attempt.is_recorded = True  # also if the program ends meanwhile: what was asked of the journal is done
        is_read_only = attempt.target.effect is Effect.READS
        await self._journal.begin_call(attempt.call, attempt.decision, is_read_only=is_read_only)
        return await self._send(attempt, progress)

    async def _approve(self, attempt: CallAttempt) -> None:
        """Ask the person, where the decision says so. The limits of time stand still while all calls wait so."""
        title = title_of(attempt.target)
        while isinstance(ask := attempt.decision, Ask):
            if ask != attempt.approved:
                answer = await self._ask(attempt, ask)
                require_not_denied(title, answer)
                attempt.approved, attempt.approval = ask, answer
                # What was approved may be forbidden by now, or the session has read more while the person was asked.
                self._decide_again(attempt)
            else:
                attempt.decision = attempt.approval or ask
        require_not_denied(title, attempt.decision)

    async def _ask(self, attempt: CallAttempt, ask: Ask) -> ApprovalDecision:
        calls, call, target = attempt.calls, attempt.call, attempt.target
        is_asked, answer = False, None

        def on_question() -> None:
            nonlocal is_asked
            is_asked = True
            self._events.publish(CallApprovalRequested(calls, call, target, ask))

        try:
            with calls.host_wait.one_more():
                answer = await self._ask_person(calls, call, target, ask, on_question)
        finally:
            if is_asked:
                self._events.publish(CallApprovalSettled(calls, call, target, answer))
        return naming_departure(calls, ask, answer)

    def _progress(self, attempt: CallAttempt) -> CallProgress:
        calls, call = attempt.calls, attempt.call

        def retried(reason: RetryReason) -> None:
            self._events.publish(CallRetried(calls, call, reason))

        record = partial(self._asked, attempt)
        answers = CallInput(calls, call, attempt.target, config=self._config, privacy=self._privacy, record=record)
        masked = partial(self._privacy.masked, calls, attempt.target)
        return CallProgress(input_provider=answers, protect=masked, on_retry=retried)

    async def _send(self, attempt: CallAttempt, progress: CallProgress) -> Reply:
        calls, call = attempt.calls, attempt.call
        upstreams = self._upstreams.for_principal(calls.context.principal)
        is_offered, outdated = False, 0
        while True:
            try:
                sent = await self._privacy.sent(calls, attempt.target, call.arguments, attempt.release)
                return await send(upstreams, attempt.target, sent, progress, attempt.revision)
            except DecisionOutdated as error:  # the configuration or the tool changed while the call waited
                if (outdated := outdated + 1) > MAX_OUTDATED:
                    raise UpstreamUnavailable(f"{error} again and again, so nothing was called") from error
                await self._follow_change(attempt)
            except SignInRequired as error:
                if self._sign_in_offers is None or is_offered:
                    raise
                is_offered = True
                outcome = await self._sign_in_offers.offer(calls, call.server)
                if outcome is not OfferOutcome.NONE:
                    self._events.publish(CallInputRequested(calls, call, "sign-in", outcome.value, None))
                if outcome is not OfferOutcome.SIGNED_IN:
                    raise SignInRequired(f"{error}{outcome.remark}") from error
                progress.retry_reason = RetryReason.SIGN_IN

    def _asked(self, attempt: CallAttempt, request: InputRequest, status: str, answer: dict[str, Any] | None) -> None:
        feature = str(request.feature or "unknown")
        shown = None
        if self._config.payloads == "all" and attempt.calls.input_requests <= MAX_INPUT_REQUESTS:
            values = {"request": {**request.params}, "answer": answer}
            shown = payload(values, self._config.payloads, attempt.calls.context.redactor)
        self._events.publish(CallInputRequested(attempt.calls, attempt.call, feature, status, shown))

    async def _follow_change(self, attempt: CallAttempt) -> None:
        attempt.target = await self._newest(attempt.target)
        self._decide_again(attempt)
        require_not_denied(title_of(attempt.target), attempt.decision)
        await attempt.check_arguments()
        await self._approve(attempt)

    def _decide_again(self, attempt: CallAttempt) -> None:
        server, target = self._config.settings.servers.get(attempt.call.server), attempt.target
        is_offered = server is not None and server.enabled and target.is_selected(server)
        if is_offered or attempt.revision == self._config.revision:
            also = self._privacy.restriction(target, attempt.release)
            decision = self._guard.decide(attempt.calls, target, attempt.guarded, also=also, is_counted=True)
            attempt.decision = with_departure(naming_release(decision, attempt.release), attempt.departure)
        else:
            attempt.decision = Deny("the edited upstream.yaml does not offer it")
        if has_to_capture(attempt.calls, target, derives=False):
            attempt.decision = CHANGED
        attempt.revision = self._config.revision

    async def _received(self, attempt: CallAttempt, reply: Reply) -> tuple[Reply, ResultSummary]:
        calls, target, payloads = attempt.calls, attempt.target, self._config.payloads
        redactor, given_uris = calls.context.redactor, linked_uris(reply)
        is_captured, has_many = isinstance(attempt.decision, Capture), is_large(reply.value)
        reply = replace(reply, value=await run_sized(has_many, self._config.redactor.value, reply.value))
        if not is_captured:
            reply = await self._privacy.received(calls, target, attempt.release, reply)
        for given, known in zip(given_uris, linked_uris(reply), strict=False):
            if len(calls.links) < MAX_LINKS:
                calls.links[target.server.raw_name, known] = given
        if not is_captured:  # no guardrail looks at what no server has sent
            reply, changes = await self._guard.after(calls, target, attempt.call.arguments, reply)
            if changes:
                attempt.decision = replace(attempt.decision, reason="; ".join((attempt.decision.reason, *changes)))
                has_many = is_large(reply.value)
        return reply, await run_sized(has_many, summarise, target, reply, payloads, redactor)

    async def _end(
        self,
        attempt: CallAttempt,
        status: CallStatus,
        reply: Reply | None = None,
        result: ResultSummary = NO_RESULT,
        *,
        error: str | None = None,
    ) -> None:
        """Record the outcome and publish it once it is the answer's turn, also if the program is being cancelled."""
        outcome = CallOutcome(status, attempt.milliseconds, result.bytes, error=error)
        if reply is not None:
            outcome = replace(outcome, result=reply.value, encoding=reply.encoding)
        try:
            if status is not CallStatus.CANCELLED:
                await attempt.calls.wait_for_turn(attempt.call.key)
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await self._record_end(attempt, outcome)
            finally:
                self._publish_end(attempt, outcome, reply, result)

    async def _record_end(self, attempt: CallAttempt, outcome: CallOutcome) -> None:
        call = attempt.call
        if isinstance(attempt.decision, Recorded) and not attempt.decision.is_assumed:  # the journal has it
            return
        if not attempt.is_recorded:  # it was refused or invalid, so there is nothing that a crash could lose
            await self._journal.begin_call(call, attempt.decision, is_read_only=True)
        await self._journal.end_call(call.execution_id, call.seq, outcome)

    def _publish_end(
        self,
        attempt: CallAttempt,
        outcome: CallOutcome,
        reply: Reply | None = None,
        result: ResultSummary = NO_RESULT,
    ) -> None:
        attempt.calls.note_answered(attempt.call.key)
        error = outcome.error
        if error is not None:  # a message may hold values
            text = error if self._config.payloads == "all" else outcome.status.value
            error = recorded_text(text, attempt.calls.context.redactor, MAX_ERROR_CHARACTERS)
        self._events.publish(
            CallEnded(attempt.calls, attempt.call, attempt.target, attempt.decision, outcome, error, reply, result)
        )
