"""The events of live executions, made of those of the gateway, for subscribers such as a host's progress messages."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import anyio

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionKind, ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.executions.artifacts import NotStored
from codemode_server.executions.execution import Execution
from codemode_server.executions.scheduling import QueuePlace
from codemode_server.gateway.events import (
    CallApprovalRequested,
    CallApprovalSettled,
    CallBegan,
    CallEnded,
    CallEvent,
)
from codemode_server.gateway.targets import title_of
from codemode_server.telemetry.metrics import EXECUTION_SECONDS, EXECUTIONS, Metrics

logger = logging.getLogger(__name__)

_MAX_UNREAD = 1_000
"""Maximum number of events that wait for one subscriber; then the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class ExecutionQueued:
    """It waits for its turn, at a new place in the queue."""

    execution_id: ExecutionId
    place: QueuePlace


@dataclass(frozen=True, slots=True)
class ExecutionStarted:
    """Its turn has come."""

    execution_id: ExecutionId


@dataclass(frozen=True, slots=True)
class ExecutionCallBegan:
    """One of its calls was decided and is sent."""

    execution_id: ExecutionId
    seq: int
    server: str
    tool: str


@dataclass(frozen=True, slots=True)
class ExecutionCallEnded:
    """One of its calls has its outcome."""

    execution_id: ExecutionId
    seq: int
    status: CallStatus
    milliseconds: float


@dataclass(frozen=True, slots=True)
class ExecutionWaiting:
    """A call began or ceased to wait for a person."""

    execution_id: ExecutionId
    awaited: tuple[str, ...]
    """`server.tool` of each call that waits now."""


@dataclass(frozen=True, slots=True)
class ExecutionSettled:
    """It has its final status; the last event."""

    execution_id: ExecutionId
    status: ExecutionStatus
    kind: ExecutionKind = field(default=ExecutionKind.PROGRAM, compare=False)
    milliseconds: float = field(default=0.0, compare=False)


ExecutionEvent = (
    ExecutionQueued | ExecutionStarted | ExecutionCallBegan | ExecutionWaiting | ExecutionCallEnded | ExecutionSettled
)


class Subscription:
    """The events of one execution for one subscriber, as an async iterator that ends after `ExecutionSettled`."""

    def __init__(self) -> None:
        self._unread: deque[ExecutionEvent] = deque(maxlen=_MAX_UNREAD)
        self._is_over = False
        self._news = anyio.Event()

    def take(self, event: ExecutionEvent) -> None:
        self._unread.append(event)
        self._is_over = isinstance(event, ExecutionSettled)
        self._news.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> ExecutionEvent:
        while not self._unread:
            if self._is_over:
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        return self._unread.popleft()


class Subscriptions:
    """Hands each event to the subscribers of its execution."""

    def __init__(self) -> None:
        self._open: dict[ExecutionId, list[Subscription]] = {}
        self.followers: list[Callable[[ExecutionEvent], None]] = []
        """They get the events of all executions, at once; an exception of one is logged."""

    def open(self, execution_id: ExecutionId) -> Subscription:
        """The events of an execution from now on."""
        subscription = Subscription()
        self._open.setdefault(execution_id, []).append(subscription)
        return subscription

    def publish(self, event: ExecutionEvent) -> None:
        for subscription in self._open.get(event.execution_id, ()):
            subscription.take(event)
        if isinstance(event, ExecutionSettled):
            self._open.pop(event.execution_id, None)
        for follower in self.followers:
            try:
                follower(event)
            except Exception:  # the execution goes on
                logger.exception("a follower failed on %s", type(event).__name__)


class ExecutionMetrics:
    """Counts by kind and status."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __call__(self, event: ExecutionEvent) -> None:
        if isinstance(event, ExecutionSettled):
            self._metrics.count(EXECUTIONS, event.kind.value, event.status.value)
            self._metrics.count(EXECUTION_SECONDS, event.kind.value, amount=event.milliseconds / 1e3)


@dataclass(slots=True)
class CallEventPublisher:
    """Subscriber of the gateway."""

    live: Mapping[ExecutionId, Execution]
    """Changes as executions start and end."""
    subscriptions: Subscriptions
    note_status: Callable[[Execution], None]
    start_writing: Callable[[Execution], None]
    """Writes results that are many to a file."""

    def take(self, event: CallEvent) -> None:
        match event:
            case CallBegan(calls, call):
                began = ExecutionCallBegan(calls.execution_id, call.seq, call.server, call.tool)
                self.subscriptions.publish(began)
            case CallApprovalRequested() | CallApprovalSettled():
                self._note_approval(event)
            case CallEnded(calls, call, outcome=outcome):
                ended = ExecutionCallEnded(calls.execution_id, call.seq, outcome.status, outcome.milliseconds)
                self.subscriptions.publish(ended)
                execution = self.live.get(calls.execution_id)
                if execution is None or event.reply is None or outcome.status is not CallStatus.SUCCEEDED:
                    return
                if execution.results.add(event.seq, event.reply, event.result):
                    self.start_writing(execution)
            case _:
                pass

    def _note_approval(self, event: CallApprovalRequested | CallApprovalSettled) -> None:
        """Its status is `waiting` as long as any of its calls waits for a person."""
        execution = self.live.get(event.calls.execution_id)
        if execution is None:
            return
        if isinstance(event, CallApprovalRequested):
            execution.awaited[event.call.seq] = title_of(event.target)
        else:
            execution.awaited.pop(event.call.seq, None)
            if event.answer is None:  # it ends; its status stays what it was
                return
        if execution.status in (ExecutionStatus.RUNNING, ExecutionStatus.WAITING):
            execution.status = ExecutionStatus.WAITING if execution.awaited else ExecutionStatus.RUNNING
            self.note_status(execution)
        self.subscriptions.publish(ExecutionWaiting(execution.execution_id, tuple(execution.awaited.values())))


async def write_results(execution: Execution) -> None:
    """Write the call results that are held in memory to a file."""
    try:
        await execution.results.write()
    except NotStored as error:
        execution.artifacts["calls"] = str(error)
