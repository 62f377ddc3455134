"""The events of calls, for work that follows a call and must not stop it.

Tracing, reports for the model, learning and the audit subscribe. Subscribers get each event in the order in which they
were passed in, at once and in the task of the call. Those of `after_answer` get the end of a call after its answer is
on the way to the program, and before anything else that the program sends is read. An exception of a subscriber is
logged; the call goes on.
"""

from __future__ import annotations

import logging
from asyncio import get_running_loop
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.results import NO_RESULT, ResultSummary
from codemode_server.calls.targets import CallTarget
from codemode_server.domain.calls import ApprovalDecision, Ask, CallOutcome, Decision, Recorded, RetryReason, ToolCall
from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.progress import CallProgress

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallUnresolved:
    """A program called something that does not exist, or with arguments that the tool can't be given."""

    calls: ExecutionCalls
    seq: int
    server: str
    tool: str
    """As the program named them, without secrets."""
    error: str


@dataclass(frozen=True, slots=True)
class CallBegan:
    """A call has its number and its decision; nothing is sent yet. A `CallEnded` always follows."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    decision: Decision
    arguments: str | None
    """The arguments as `state.payloads` allows in records and traces."""


@dataclass(frozen=True, slots=True)
class CallApprovalRequested:
    """The call waits for a person from now on. A `CallApprovalSettled` always follows."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    ask: Ask


@dataclass(frozen=True, slots=True)
class CallApprovalSettled:
    """The call waits no longer for a person."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    answer: ApprovalDecision | None
    """None: the program ended before there was one."""


@dataclass(frozen=True, slots=True)
class CallSending:
    """The call is about to be recorded and sent; what the upstream reports meanwhile is written to `progress`. Steps
    that a subscriber posts to the database are committed with the record, before the call is sent."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    progress: CallProgress


@dataclass(frozen=True, slots=True)
class CallRetried:
    """The call is sent now after an attempt that failed, in which the upstream had not carried it out."""

    calls: ExecutionCalls
    call: ToolCall
    reason: RetryReason


@dataclass(frozen=True, slots=True)
class CallInputRequested:
    """The upstream asked for something during the call, and the request is settled."""

    calls: ExecutionCalls
    call: ToolCall
    feature: str
    """The requested feature, such as `elicitation`."""
    status: str
    """`accept`, `decline` or `cancel` of the person; `answered`, `refused` or `withdrawn`."""
    payload: str | None
    """Request and answer, as `state.payloads` allows in records."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The call has its outcome. This is its last event."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    decision: Decision
    outcome: CallOutcome
    recorded_error: str | None
    """The error as `state.payloads` allows in records and traces."""
    reply: Reply | None = None
    """Reply to the program; None if it is an error."""
    result: ResultSummary = NO_RESULT

    @property
    def seq(self) -> int:
        """Number of the call for the model: that of the earlier run if it is answered from there."""
        return (self.decision.seq if isinstance(self.decision, Recorded) else 0) or self.call.seq


CallEvent = (
    CallUnresolved
    | CallBegan
    | CallApprovalRequested
    | CallApprovalSettled
    | CallSending
    | CallRetried
    | CallInputRequested
    | CallEnded
)
Subscriber = Callable[[CallEvent], None]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber of these kinds of events only."""

    subscriber: Subscriber
    kinds: tuple[type[CallEvent], ...]


Subscribers = Sequence[Subscriber | Subscription]


class CallEvents:
    """Hands each event to its subscribers."""

    def __init__(self, subscribers: Subscribers, *, after_answer: Subscribers = ()) -> None:
        self._by_kind = {kind: (_of(kind, subscribers), _of(kind, after_answer)) for kind in get_args(CallEvent)}

    def publish(self, event: CallEvent) -> None:
        subscribers, after_answer = self._by_kind[type(event)]
        _hand(subscribers, event)
        if isinstance(event, CallEnded):
            # The task of the call runs on until the answer is written; the loop reads what comes in after that.
            get_running_loop().call_soon(_hand, after_answer, event)
        elif after_answer:
            _hand(after_answer, event)


def _of(kind: type[CallEvent], subscribers: Subscribers) -> list[Subscriber]:
    given = [it if isinstance(it, Subscription) else Subscription(it, (kind,)) for it in subscribers]
    return [it.subscriber for it in given if kind in it.kinds]


def _hand(subscribers: Sequence[Subscriber], event: CallEvent) -> None:
    for subscriber in subscribers:
        try:
            subscriber(event)
        except Exception:  # the call and the other subscribers go on
            logger.exception("a subscriber failed on %s", type(event).__name__)
