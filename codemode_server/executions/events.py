"""The events of a live execution, for its subscribers, such as a host's progress messages."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from codemode_server.domain.calls import CallStatus
from codemode_server.domain.executions import ExecutionKind, ExecutionStatus
from codemode_server.domain.ids import ExecutionId
from codemode_server.executions.scheduling import QueuePlace

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
        await self._wait()
        if not self._unread:
            raise StopAsyncIteration
        return self._unread.popleft()

    async def read_all(self) -> list[ExecutionEvent]:
        """All unread events, at least one; none after `ExecutionSettled`."""
        await self._wait()
        events = list(self._unread)
        self._unread.clear()
        return events

    async def _wait(self) -> None:
        while not self._unread and not self._is_over:
            self._news = anyio.Event()
            await self._news.wait()


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
