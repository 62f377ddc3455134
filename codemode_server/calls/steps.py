"""The kernel's own layers, in the order in which a call passes them: `Check`, `Approval`, `WriteTurn`, `Begin`; then
`Send`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from codemode_server.calls.call_audit import MAX_INPUT_REQUESTS
from codemode_server.calls.call_input import CallInput, ServerTexts
from codemode_server.calls.decisions import Decisions
from codemode_server.calls.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallEvents,
    CallInputRequested,
    CallRetried,
    CallSending,
)
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.calls.policy.limits import Limits
from codemode_server.calls.policy.refusals import require_not_denied
from codemode_server.calls.resolver import TargetResolver
from codemode_server.calls.results import linked_uris
from codemode_server.calls.targets import MAX_OUTDATED, CallTarget, send, title_of
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import ApprovalDecision, Ask, Deny, Recorded, RetryReason, ToolCall
from codemode_server.domain.errors import DecisionOutdated, InvalidArguments, UpstreamUnavailable
from codemode_server.domain.input_requests import InputRequest
from codemode_server.domain.tools import Effect
from codemode_server.sandbox.contract import Reply
from codemode_server.support.off_loop import is_large, run_large, run_sized
from codemode_server.support.redaction import payload
from codemode_server.upstreams.progress import CallProgress

if TYPE_CHECKING:
    from codemode_server.storage.journal import Journal
    from codemode_server.upstreams.pool import UpstreamPool


class Approver(Protocol):
    """Asks the person about single calls. Neither a program nor the model has a way to it."""

    async def approve(
        self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask, on_question: Callable[[], None]
    ) -> ApprovalDecision:
        """The answer, however long it takes; a time that has passed is a `Deny`. `Recorded`: the attempt of an earlier
        run arrived. `on_question` is called before the person is asked, and not at all if an earlier answer holds for
        this call too. Cancelling it withdraws the question."""


class NoApprover:
    """Refuses what it is asked about, in a product without the feature that asks the person."""

    async def approve(
        self, calls: ExecutionCalls, call: ToolCall, target: CallTarget, ask: Ask, on_question: Callable[[], None]
    ) -> ApprovalDecision:
        return Deny(f"{ask.reason}, and this codemode-server asks nobody")


class Check(Layer):
    """Refuses what is denied before it checks the arguments, as an error of those explains the schema of the tool; both
    before a person is asked. Masks secrets in the result, and notes its links."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config

    async def around(self, call: Call, proceed: Next) -> Reply:
        require_not_denied(call.target, call.decision)
        if not isinstance(call.decision, Recorded) and not call.is_guessed:
            await check_arguments(call)
        reply = await proceed(call)
        call.given_uris = linked_uris(reply)
        mask, value = self._config.redactor.value, reply.value
        masked = await run_large(mask, value) if is_large(value) else mask(value)
        if masked is not value:
            reply = replace(reply, value=masked)
        call.note_links(reply)
        return reply


async def check_arguments(call: Call) -> None:
    """Compare what would be sent with the schema of the tool. Raises `InvalidArguments` if it does not fit."""
    check, shown = call.target.check, call.arguments
    if call.values is None:
        await run_large(check, shown) if call.is_large else check(shown)
        return
    try:
        await run_sized(call.is_large, check, call.values.arguments)
    except InvalidArguments:
        # Its text may show a part of a value, which no search for values finds.
        await run_sized(call.is_large, check, shown)
        raise InvalidArguments(
            f"{title_of(call.target)}: the arguments do not fit the schema of the tool with what the privacy "
            "tokens in them stand for"
        ) from None


class Approval(Layer):
    """Asks the person, where the decision says so, and decides again whenever the configuration, the tool, or what the
    session has read has changed under the call."""

    def __init__(
        self,
        approver: Approver,
        decisions: Decisions,
        limits: Limits,
        resolver: TargetResolver,
        events: CallEvents,
    ) -> None:
        self._approver = approver
        self._decisions = decisions
        self._limits = limits
        self._resolver = resolver
        self._events = events

    async def around(self, call: Call, proceed: Next) -> Reply:
        try:
            await self._approve(call)
            outdated = 0
            while True:
                try:
                    return await proceed(call)
                except DecisionOutdated as error:  # the configuration or the tool changed while the call waited
                    if (outdated := outdated + 1) > MAX_OUTDATED:
                        raise UpstreamUnavailable(f"{error} again and again, so nothing was called") from error
                call.target = await self._resolver.newest(call.target)
                await self._decisions.decide_again(call)
                require_not_denied(call.target, call.decision)
                await check_arguments(call)
                await self._approve(call)
        finally:
            self._limits.release(call)

    async def _approve(self, call: Call) -> None:
        """Ask the person until no question is left, and count the call for each limit of its execution, once."""
        while isinstance(ask := call.decision, Ask):
            if call.approval is not None and ask == call.approved:
                call.decision = call.approval
                break
            await self._limits.reserve(call)
            require_not_denied(call.target, call.decision)  # nobody is asked about a call that a limit refuses
            answer = await self._answer(call, ask)
            require_not_denied(call.target, answer)
            call.approved, call.approval = ask, answer
            # What was approved may be forbidden by now, or the session has read more while the person was asked.
            await self._decisions.decide_again(call)
        self._limits.count(call)
        require_not_denied(call.target, call.decision)

    async def _answer(self, call: Call, ask: Ask) -> ApprovalDecision:
        """The person's answer. The limits of time stand still while all calls wait so."""
        calls, record, target = call.calls, call.record, call.target
        is_asked, answer = False, None

        def on_question() -> None:
            nonlocal is_asked
            is_asked = True
            self._events.publish(CallApprovalRequested(calls, record, target, ask))

        try:
            with calls.host_wait.one_more():
                answer = await self._approver.approve(calls, record, target, ask, on_question)
        finally:
            if is_asked:
                self._events.publish(CallApprovalSettled(calls, record, target, answer))
        is_compared = calls.resumed is not None or calls.plan is not None
        if isinstance(answer, Deny) and is_compared and ask.reason not in answer.reason:
            return replace(answer, reason=f"{answer.reason} ({ask.reason})")
        return answer


class WriteTurn(Layer):
    """Lets one call that may write go on to its server at a time, and one of each program wait for that, so a program
    with many writes delays those of others by one. No call holds a turn while it waits for a person: one whose server
    asks the host something gives it back. A call is decided again if the session has read something that restricts it
    meanwhile: else what a program has read could decide whether it ends before that call is sent."""

    def __init__(self, upstreams: UpstreamPool, decisions: Decisions) -> None:
        self._upstreams = upstreams
        self._decisions = decisions

    async def around(self, call: Call, proceed: Next) -> Reply:
        if not call.target.may_write:
            return await proceed(call)
        upstreams = self._upstreams.for_caller(call.calls.caller, call.calls.host.features)
        server = call.target.server.raw_name
        if (of_server := upstreams.turn_to_write(server)) is None:
            return await proceed(call)
        with ExitStack() as held:
            for turn in (call.calls.writing[server], of_server):
                await turn.acquire()
                held.callback(turn.release)
            call.end_turn = held.close
            await self._decisions.require_current(call)
            return await proceed(call)


class Begin(Layer):
    """Records a call before it is sent, so one that can't be recorded is not sent. One that only reads is sent while it
    is being recorded, and its answer waits for that: if a kill comes first, nothing has had it. Recorded once, unless
    what only read is decided again as what writes. Rate limits count it with its record, for which also one that only
    reads waits then."""

    def __init__(
        self, journal: Journal, limits: Limits, events: CallEvents, config: LiveConfig, texts: ServerTexts
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._events = events
        self._config = config
        self._texts = texts

    async def around(self, call: Call, proceed: Next) -> Reply:
        is_read_only, is_first = call.target.effect is Effect.READS, call.recorded_as is None
        limits = self._limits.uncounted(call)
        if is_first:
            call.progress = self._progress(call)
            call.recorded_as = call.decision  # also if the program ends meanwhile: the journal does what it was asked
        elif not limits and (is_read_only or not call.is_recorded_as_read):
            return await proceed(call)
        if is_first and not limits:
            self._publish(call)
        call.is_recorded_as_read = is_read_only
        recorded = await self._journal.submit_call(
            call.record, call.decision, is_read_only=is_read_only, recorded_arguments=call.shown, limits=limits
        )
        if limits:
            self._limits.release(call)  # who reserves from now on is told of the count
            call.decision = await recorded or call.decision
            require_not_denied(call.target, call.decision)
            call.counted |= {it.name for it in limits}
            if is_first:
                self._publish(call)
                await self._journal.flush(call.record.execution_id)  # also what subscribers record precedes the call
        elif is_read_only:
            try:
                return await proceed(call)
            finally:
                await recorded
        else:
            await recorded
        return await proceed(call)

    def _publish(self, call: Call) -> None:
        self._events.publish(CallSending(call.calls, call.record, call.target, call.progress))

    def _progress(self, call: Call) -> CallProgress:
        def retried(reason: RetryReason) -> None:
            self._events.publish(CallRetried(call.calls, call.record, reason))

        answers = CallInput(call, config=self._config, texts=self._texts, record=partial(self._record_input, call))
        masked = partial(self._texts.masked, call)
        return CallProgress(input_provider=answers, protect=masked, on_retry=retried)

    def _record_input(self, call: Call, request: InputRequest, status: str, answer: dict[str, Any] | None) -> None:
        shown = None
        if self._config.payloads == "all" and call.calls.input_requests <= MAX_INPUT_REQUESTS:
            values = {"request": {**request.params}, "answer": answer}
            shown = payload(values, self._config.payloads, call.calls.caller.redactor)
        feature = str(request.feature or "unknown")
        self._events.publish(CallInputRequested(call.calls, call.record, feature, status, shown))


class Send:
    """Sends a call, with values in place of what stands for them."""

    def __init__(self, upstreams: UpstreamPool) -> None:
        self._upstreams = upstreams

    async def __call__(self, call: Call) -> Reply:
        sent = call.arguments if call.values is None else await call.values.now(call.arguments)
        upstreams = self._upstreams.for_caller(call.calls.caller, call.calls.host.features)
        return await send(upstreams, call.target, sent, call.progress, call.revision)
