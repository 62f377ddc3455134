"""The events of the call pipeline, for work that follows a call and must not stop it.

Tracing, reports for the model, learning and the audit subscribe. Subscribers get each event at once, in the task of the
call and in the order in which they were passed in. An exception of a subscriber is logged; the call goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codemode_server.domain.calls import CallOutcome, Decision, ToolCall
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.results import NO_RESULT, ResultSummary
from codemode_server.gateway.targets import CallTarget
from codemode_server.sandbox.contract import Reply
from codemode_server.upstreams.progress import CallProgress

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallUnresolved:
    """A program called something that does not exist."""

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
class CallSent:
    """The call is in the journal and is sent now; what the upstream reports meanwhile is written to `progress`."""

    calls: ExecutionCalls
    call: ToolCall
    target: CallTarget
    progress: CallProgress


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
    """What the program receives; None if it is an error."""
    result: ResultSummary = NO_RESULT


CallEvent = CallUnresolved | CallBegan | CallSent | CallEnded
Subscriber = Callable[[CallEvent], None]


class CallEvents:
    """Hands each event to all subscribers."""

    def __init__(self, subscribers: Sequence[Subscriber]) -> None:
        self._subscribers = tuple(subscribers)

    def publish(self, event: CallEvent) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:  # the call and the other subscribers go on
                logger.exception("a subscriber failed on %s", type(event).__name__)
