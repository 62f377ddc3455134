"""The calls that a connection has under way, and which of them a request of the upstream belongs to.

Up to protocol 2025-11-25 a request of the upstream does not say which call it belongs to, unless it is of a task. It is
taken to belong to the newest call in flight, if all calls in flight are of one session of a host; otherwise it is
refused, since it could reach the user of another session. Outside of any call nothing is answered. In protocol
2026-07-28 requests are part of the answer to a call, so nothing has to be guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from codemode_server.domain.errors import ToolFailed
from codemode_server.domain.input_requests import InputProvider, InputRefused, InputRequest

_RELATED_TASK = "io.modelcontextprotocol/related-task"


@dataclass(eq=False, slots=True)
class CallInFlight:
    """One call on its way. `patience` is cancelled when the upstream was silent for `timeout_s`."""

    provider: InputProvider | None
    patience: anyio.CancelScope
    timeout_s: float
    task_id: str = field(default="", init=False)
    """The task that the call has become."""
    _asked: int = field(default=0, init=False)
    _others: Sequence[CallInFlight] = field(default=(), init=False)

    def heard(self) -> None:
        """The upstream has reported something."""
        if not self._asked:
            self.patience.deadline = anyio.current_time() + self.timeout_s

    def follow(self, task_id: str) -> None:
        """The call has become this task.

        Raises:
            ToolFailed: another call has.
        """
        if any(other.task_id == task_id for other in self._others if other is not self):
            raise ToolFailed("the server answered with the task of another call")
        self.task_id = task_id

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        """Answer a request that belongs to this call; meanwhile the upstream's silence is not counted.

        Raises:
            InputRefused: there is no answer.
        """
        if self.provider is None:
            raise InputRefused("nobody can be asked")
        self._asked += 1
        self.patience.deadline = float("inf")
        try:
            return await self.provider.answer(request)
        finally:
            self._asked -= 1
            self.heard()


class CallsInFlight:
    """Those of one connection, the oldest first."""

    def __init__(self) -> None:
        self._calls: list[CallInFlight] = []

    @property
    def is_empty(self) -> bool:
        return not self._calls

    @contextmanager
    def one_more(self, call: CallInFlight) -> Iterator[None]:
        """The call is in flight until this is left."""
        self._calls.append(call)
        call._others = self._calls
        try:
            yield
        finally:
            self._calls.remove(call)

    def owner(self, request: InputRequest) -> CallInFlight:
        """The call that a request of the upstream belongs to.

        Raises:
            InputRefused: there is none, or it can't be known.
        """
        related = request.params.get("_meta", {}).get(_RELATED_TASK)
        task_id = related.get("taskId") if isinstance(related, dict) else None
        if task_id is not None:
            of_task = [call for call in self._calls if call.task_id == task_id]
            if len(of_task) != 1:
                raise InputRefused("the request belongs to a task that no call here is waiting for")
            return of_task[0]
        if not self._calls:
            raise InputRefused("requests are answered only during a call")
        if not self._are_of_one_session:
            raise InputRefused("calls of several users are under way, so it is not known whom this request is for")
        return self._calls[-1]

    @property
    def _are_of_one_session(self) -> bool:
        return len({call.provider.session_id if call.provider else "" for call in self._calls}) == 1
