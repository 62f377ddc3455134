"""The kernel of a call: its phases, the chain of layers around its sending, its record, and its last event.

A call is prepared, gets its key, is decided, and passes the chain: each layer does its part around what is inside it.
`startup/call_layers.py` lists the layers in order. A call that is refused or invalid is recorded when it ends; one that
is sent is recorded before (`steps.Begin`). What follows a call and must not stop it subscribes to `calls.events`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from codemode_server.calls.audit import MAX_ERROR_CHARACTERS
from codemode_server.calls.events import CallBegan, CallEnded, CallEvents
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.results import MAX_LINKS, NO_RESULT, ResultSummary, linked_uris, summarise
from codemode_server.calls.targets import CallTarget
from codemode_server.config.live import LiveConfig
from codemode_server.domain.call_limits import CallLimit
from codemode_server.domain.calls import (
    Allow,
    ApprovalDecision,
    Ask,
    CallOutcome,
    CallStatus,
    Capture,
    Decision,
    Deny,
    Recorded,
    ToolCall,
    arguments_digest,
)
from codemode_server.domain.errors import (
    AnswerLost,
    CallError,
    CallRefused,
    CallTimedOut,
    ExecutionError,
    InvalidArguments,
    JournalUnavailable,
    UpstreamUnavailable,
)
from codemode_server.domain.tools import Effect
from codemode_server.sandbox.contract import Reply
from codemode_server.support.off_loop import is_large, run_large
from codemode_server.support.own_methods import own_methods
from codemode_server.support.redaction import payload, recorded_text
from codemode_server.upstreams.progress import CallProgress

if TYPE_CHECKING:
    from codemode_server.calls.decisions import Decisions
    from codemode_server.storage.journal import Journal

_STATUS: tuple[tuple[type[CallError], CallStatus], ...] = (
    (CallRefused, CallStatus.REFUSED),
    (InvalidArguments, CallStatus.INVALID),
    (AnswerLost, CallStatus.UNKNOWN),
    (UpstreamUnavailable, CallStatus.UNAVAILABLE),
    (CallTimedOut, CallStatus.TIMED_OUT),
)
_UNDECIDED = Deny("it ended before it was decided", advice="")


class SentValues(Protocol):
    """What is sent in place of texts in the arguments of a call."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments with the values, for decisions and checks."""

    @property
    def remark(self) -> str:
        """What a decision that allows the call says of them."""

    async def now(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as they are sent at this moment. Raises `CallRefused` if a value is gone."""


@dataclass(slots=True)
class Call:
    """One call on its way, owned by its task."""

    calls: ExecutionCalls
    target: CallTarget
    arguments: dict[str, Any]
    """As the program gave them, then as guardrails leave them; records and questions show these."""
    seq: int
    chain: Chain
    began_at: float = field(default_factory=time.perf_counter)
    """Value of `time.perf_counter`."""
    is_large: bool = False
    """True if work on the arguments is done in a thread."""
    values: SentValues | None = None
    record: ToolCall = field(init=False)
    """The call as it is recorded; it is there from its first decision on."""
    is_identified: bool = False
    """True once `record` is there."""
    is_announced: bool = False
    """True once subscribers have heard of it."""
    decision: Decision = _UNDECIDED
    revision: int = -1
    """Revision of the configuration under which it was decided."""
    restrictions: Sequence[Deny | Ask] = ()
    """What layers restricted when it was decided."""
    changes: tuple[str, ...] = ()
    """Who changed the arguments and why; part of the reason of each decision."""
    departure: Ask | None = None
    """Approval needed because the call differs from an earlier run or a plan."""
    is_guessed: bool = False
    """True if its arguments derive from a placeholder of a dry run, which may be of another type."""
    approved: Ask | None = None
    """The question that a person has approved, if any."""
    approval: ApprovalDecision | None = None
    """The decision that came of it."""
    counted: set[str] = field(default_factory=set)
    """The limits that have counted it."""
    limits: Sequence[CallLimit] = ()
    """The rate limits that count it when it is recorded."""
    reservations: dict[str, Counter[str]] = field(default_factory=dict)
    """The limits in which it is reserved, each with where that is counted; see `policy.limits`."""
    progress: CallProgress = field(default_factory=CallProgress)
    shown: str | None = None
    """The arguments as `state.payloads` allows in records and traces."""
    recorded_as: Decision | None = None
    """The decision with which the journal was asked to record its beginning, if it was."""
    is_recorded_as_read: bool = False
    """True if that record need not survive a power cut."""
    given_uris: Sequence[str] = ()
    """The URIs of links in its result as the upstream gave them."""
    end_turn: Callable[[], None] = lambda: None
    """Lets the next call write to the server, if this one keeps it waiting."""
    own: dict[type[Layer], Any] = field(default_factory=dict)
    """State of layers."""

    @property
    def milliseconds(self) -> float:
        """Since it began."""
        return (time.perf_counter() - self.began_at) * 1e3

    def note_links(self, reply: Reply) -> None:
        """Let programs read what links of the reply, as the program will know them, stand for."""
        if not self.given_uris:
            return
        links, server = self.calls.links, self.target.server.raw_name
        for given, known in zip(self.given_uris, linked_uris(reply), strict=False):
            if len(links) < MAX_LINKS:
                links[server, known] = given


Next = Callable[[Call], Awaitable[Reply]]


class Layer:
    """One concern of calls. A method that a layer does not have costs a call nothing."""

    def is_for(self, calls: ExecutionCalls) -> bool:
        """True if the calls of this execution pass the layer."""
        return True

    async def prepare(self, call: Call) -> None:
        """May change the arguments, before the key is made of them."""

    async def restrict(self, call: Call) -> Deny | Ask | None:
        """What holds beside the rules. It changes nothing: it is asked again whenever the call is decided."""

    async def settle(self, call: Call) -> None:
        """Called once, after the first decision; may replace it, so that the call is answered without its server."""

    async def around(self, call: Call, proceed: Next) -> Reply:
        """Do the part of this layer around what is inside it. Raises as `Kernel.run` does."""
        return await proceed(call)


@dataclass(frozen=True, slots=True)
class Chain:
    """The layers of one execution, by what they do."""

    prepare: tuple[Callable[[Call], Awaitable[None]], ...]
    restrict: tuple[Callable[[Call], Awaitable[Deny | Ask | None]], ...]
    settle: tuple[Callable[[Call], Awaitable[None]], ...]
    proceed: Next

    @classmethod
    def of(cls, own: Sequence[tuple[Layer, frozenset[str]]], send: Next) -> Chain:
        """`own`: the layers, each with the names of the methods that it has."""
        proceed = send
        for layer, names in reversed(own):
            if "around" in names:
                proceed = partial(layer.around, proceed=proceed)
        return cls(
            tuple([it.prepare for it, names in own if "prepare" in names]),
            tuple([it.restrict for it, names in own if "restrict" in names]),
            tuple([it.settle for it, names in own if "settle" in names]),
            proceed,
        )


class Kernel:
    """Runs calls, many at once; all state of a call is in its `Call` and the `ExecutionCalls`."""

    def __init__(
        self,
        layers: Sequence[Layer],
        send: Next,
        *,
        decisions: Decisions,
        journal: Journal,
        events: CallEvents,
        config: LiveConfig,
    ) -> None:
        """`layers` from the outermost to the innermost, around `send`."""
        self._layers = [(it, own_methods(it, Layer)) for it in layers]
        self._send = send
        self._decisions = decisions
        self._journal = journal
        self._events = events
        self._config = config

    async def run(
        self,
        calls: ExecutionCalls,
        target: CallTarget,
        arguments: dict[str, Any],
        *,
        refusal: InvalidArguments | None = None,
    ) -> Reply:
        """Make one call for an execution and return what the program receives, or without a program the host. One with
        a `refusal` is recorded and raises it.

        Raises:
            CallError: the call did not succeed; the message is for the program.
            ExecutionError: the program has to be ended.
            JournalUnavailable: the call could not be recorded, so it was not sent, unless it only reads; or its outcome
                could not.
        """
        if calls.chain is None:
            layers = [(it, own) for it, own in self._layers if "is_for" not in own or it.is_for(calls)]
            calls.chain = Chain.of(layers, self._send)
        call = Call(calls, target, arguments, calls.next_seq(), calls.chain)
        try:
            await self._decide(call, refusal)
            reply = await call.chain.proceed(call)
            about = call.target, reply, self._config.payloads, calls.caller.redactor
            result = await run_large(summarise, *about) if is_large(reply.value) else summarise(*about)
        except CallError as error:
            message = calls.caller.redactor.text(str(error))
            status = next((status for kind, status in _STATUS if isinstance(error, kind)), CallStatus.FAILED)
            await self._end(call, status, error=message)
            raise type(error)(message) from error
        except ExecutionError as error:
            await self._end(call, CallStatus.INVALID, error=str(error))
            raise
        except JournalUnavailable as error:
            await self._announce(call)
            # A call that only reads may have been sent meanwhile.
            status = CallStatus.CANCELLED if call.progress.may_have_arrived else CallStatus.INVALID
            outcome = CallOutcome(status, call.milliseconds, error=str(error))
            self._publish_end(call, outcome, self._recorded_error(call, outcome))
            raise
        except Exception:  # a bug, which whoever runs the program logs
            status = CallStatus.UNKNOWN if call.progress.may_have_arrived else CallStatus.INVALID
            await self._end(call, status, error=f"internal error of codemode-server{_doubt(call)}")
            raise
        except BaseException:
            if isinstance(call.decision, Allow) and not call.progress.may_have_arrived:
                status, text = CallStatus.UNSENT, "the program stopped waiting before it was sent"
            else:
                status, text = CallStatus.CANCELLED, f"no answer before the program stopped waiting{_doubt(call)}"
            await self._end(call, status, error=text)
            raise
        status = CallStatus.FAILED if result.marked_error else CallStatus.SUCCEEDED
        status = CallStatus.CAPTURED if isinstance(call.decision, Capture) else status
        await self._end(call, status, reply, result, error=result.marked_error)
        return reply

    async def _decide(self, call: Call, refusal: InvalidArguments | None) -> None:
        call.is_large = is_large(call.arguments)
        for prepare in call.chain.prepare:
            await prepare(call)
        await self._identify(call)
        await self._decisions.decide(call)
        for settle in call.chain.settle:
            await settle(call)
        await self._announce(call)
        if refusal is not None:
            raise refusal

    async def _identify(self, call: Call) -> None:
        """Give the call its key, which is made of its arguments as records show them, with privacy tokens."""
        server, tool = call.target.server.raw_name, call.target.raw_name
        arguments = call.arguments
        digest = await run_large(arguments_digest, arguments) if call.is_large else arguments_digest(arguments)
        key = call.calls.next_key(server, tool, digest)
        call.is_identified = True
        call.record = ToolCall(call.calls.execution_id, call.seq, server, tool, arguments, key)

    async def _announce(self, call: Call) -> None:
        """Publish that the call has its number and decision, once."""
        if call.is_announced:
            return
        if not call.is_identified:
            await self._identify(call)
        about = call.arguments, self._config.payloads, call.calls.caller.redactor
        call.shown = await run_large(payload, *about) if call.is_large else payload(*about)
        call.is_announced = True  # not before: a program that is cancelled meanwhile has its call announced at its end
        self._events.publish(CallBegan(call.calls, call.record, call.target, call.decision, call.shown))

    async def _end(
        self,
        call: Call,
        status: CallStatus,
        reply: Reply | None = None,
        result: ResultSummary = NO_RESULT,
        *,
        error: str | None = None,
    ) -> None:
        """Record the outcome and publish it once it is the answer's turn, also if the program is being cancelled."""
        outcome = CallOutcome(status, call.milliseconds, result.bytes, error=error)
        if reply is not None:
            outcome = replace(outcome, result=reply.value, encoding=reply.encoding)
        recorded_error = self._recorded_error(call, outcome)
        if not call.is_announced:
            with anyio.CancelScope(shield=True):
                await self._announce(call)
        try:
            if status not in (CallStatus.CANCELLED, CallStatus.UNSENT):
                await call.calls.wait_for_turn(call.record.key)
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await self._record_end(call, outcome, result.payload, recorded_error)
            finally:
                self._publish_end(call, outcome, recorded_error, reply, result)

    async def _record_end(
        self, call: Call, outcome: CallOutcome, recorded_result: str | None, recorded_error: str | None
    ) -> None:
        record = call.record
        if isinstance(call.decision, Recorded) and not call.decision.is_assumed:  # the journal has it
            return
        if call.recorded_as is None and outcome.status is CallStatus.CANCELLED and isinstance(call.decision, Ask):
            resumed = call.calls.resumed
            if resumed is not None and record.key in resumed.waiting:  # the record of an earlier run says the same
                return
        if call.recorded_as is None:  # it was refused or invalid, so there is nothing that a crash could lose
            await self._journal.begin_call(record, call.decision, is_read_only=True, recorded_arguments=call.shown)
            call.recorded_as = call.decision
        decided_again = None if call.decision is call.recorded_as else call.decision
        await self._journal.end_call(
            record.execution_id,
            record.seq,
            outcome,
            decided_again,
            recorded_result=recorded_result,
            recorded_error=recorded_error,
        )

    def _publish_end(
        self,
        call: Call,
        outcome: CallOutcome,
        error: str | None,
        reply: Reply | None = None,
        result: ResultSummary = NO_RESULT,
    ) -> None:
        call.calls.note_answered(call.record.key)
        self._events.publish(
            CallEnded(call.calls, call.record, call.target, call.decision, outcome, error, reply, result)
        )

    def _recorded_error(self, call: Call, outcome: CallOutcome) -> str | None:
        """The error as `state.payloads` allows, since a message may hold values."""
        if outcome.error is None:
            return None
        text = outcome.error if self._config.payloads == "all" else outcome.status.value
        return recorded_text(text, call.calls.caller.redactor, MAX_ERROR_CHARACTERS)


def _doubt(call: Call) -> str:
    """The end of the message on a call without an answer, if it may have had an effect."""
    may_have_acted = call.progress.may_have_arrived and call.target.effect is not Effect.READS
    return f"; whether tool {call.target.raw_name!r} acted is not known" if may_have_acted else ""
