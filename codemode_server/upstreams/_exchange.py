"""One call over a link, from its request to its result: input that the server asks for, and the task it may become."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from codemode_server.domain.errors import ToolFailed
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.upstreams._calls_in_flight import CallInFlight
from codemode_server.upstreams._link import Answer, Link, is_broken_off, is_end

MAX_ROUNDS = 20
"""How often one call may be answered with a request for input."""
MAX_REQUESTS_AT_ONCE = 10
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
OnProgress = Callable[[float, float | None, str | None], None]


class Exchange:
    """One call. `on_progress` gets the reports of its progress."""

    def __init__(
        self, link: Link, call: CallInFlight, on_progress: OnProgress, reconnect: Callable[[], Awaitable[Link]]
    ) -> None:
        """`reconnect` gives the next link once this one is lost."""
        self._link = link
        self._call = call
        self._on_progress = on_progress
        self._reconnect = reconnect
        provider = call.provider
        self._features: frozenset[Feature] = provider.features if provider is not None else frozenset()

    async def run(self, method: str, params: dict[str, Any]) -> Answer:
        """Send the request, and answer what the server asks for, until there is a result.

        Raises:
            MCPError: as `Link.request`.
            ToolFailed: the server asks for input that it does not get, or without end.
        """
        answer, pause_s = await self._request(method, params), _FIRST_PAUSE_S
        for _ in range(MAX_ROUNDS):
            required = answer.input_required
            if required is None:
                return await self._task_result(answer) if _is_task(answer) else answer
            await answer.read(lambda _: None)
            more: dict[str, Any] = {} if required.state is None else {"requestState": required.state}
            if required.requests:
                more["inputResponses"], pause_s = await self._responses(required.requests), _FIRST_PAUSE_S
            else:  # the server has nothing to ask yet
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
            answer = await self._request(method, {**params, **more})
        raise ToolFailed(f"the server asked for input {MAX_ROUNDS} times without a result")

    async def _request(self, method: str, params: dict[str, Any]) -> Answer:
        return await self._link.request(method, {**params}, self._take_progress, self._features)

    async def _take_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._on_progress(progress, total, message)
        self._call.heard()

    async def _task_result(self, created: Answer) -> Answer:
        """The result of the task that the call has become."""
        task = created.top_level("task") if not self._link.is_modern else created.summary()
        await created.read(lambda _: None)
        run = TaskRun(
            self._link,
            self._call,
            state := TaskState.read(task),
            features=self._features,
            on_message=lambda message: self._on_progress(0.0, None, message),
            respond=self._responses,
            reconnect=self._reconnect,
        )
        self._call.follow(state.task_id)
        return await run.run()

    async def _responses(self, requests: dict[str, Any]) -> dict[str, Any]:
        if len(requests) > MAX_REQUESTS_AT_ONCE:
            raise ToolFailed(f"the server asked for {len(requests):,} inputs at once; {MAX_REQUESTS_AT_ONCE} are taken")
        responses: dict[str, Any] = {}
        for key, request in requests.items():
            try:
                responses[key] = await self._call.answer(_input_request(request))
            except InputRefused as refusal:
                raise ToolFailed(f"the server asked for input and got none: {refusal}") from None
        return responses


def _is_task(answer: Answer) -> bool:
    """True if a call was answered with a task, in either protocol."""
    return answer.top_level("resultType") == "task" or (
        isinstance(answer.top_level("task"), dict) and answer.top_level("content") is None
    )


def _input_request(request: object) -> InputRequest:
    method = request.get("method") if isinstance(request, dict) else None
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(method, str):
        raise InputRefused("the request has no method")
    return InputRequest(method, params if isinstance(params, dict) else {})


logger = logging.getLogger(__name__)

MAX_TASK_ID_CHARACTERS = 1_000
_MIN_POLL_S, _DEFAULT_POLL_S, _MAX_POLL_S = 0.1, 1.0, 30.0
_CANCEL_S = 2.0
_MAX_RECONNECTIONS = 3
_TERMINAL = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as the server reports it."""

    task_id: str
    status: str
    message: str | None
    poll_s: float

    @classmethod
    def read(cls, data: Any) -> TaskState:
        """Raises `ToolFailed` for what is no task."""
        task = data if isinstance(data, dict) else {}
        task_id, status, message = (task.get(name) for name in ("taskId", "status", "statusMessage"))
        is_id = isinstance(task_id, str) and 0 < len(task_id) <= MAX_TASK_ID_CHARACTERS
        if not is_id or not isinstance(status, str):
            raise ToolFailed("the server answered with a task that has no usable taskId or status")
        pause = task.get("pollIntervalMs", task.get("pollInterval"))
        poll_s = pause / 1e3 if isinstance(pause, int | float) and 0 < pause < 1e9 else _DEFAULT_POLL_S
        poll_s = min(_MAX_POLL_S, max(_MIN_POLL_S, poll_s))
        return cls(str(task_id), status, message if isinstance(message, str) else None, poll_s)


class TaskRun:
    """One task of one call."""

    def __init__(
        self,
        link: Link,
        call: CallInFlight,
        state: TaskState,
        *,
        features: frozenset[Feature],
        on_message: Callable[[str | None], None],
        respond: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
        reconnect: Callable[[], Awaitable[Link]],
    ) -> None:
        """`respond` answers input requests; `reconnect` gives the next link once this one is lost."""
        self._link = link
        self._call = call
        self._state = state
        self._features = features
        self._on_message = on_message
        self._respond = respond
        self._reconnect = reconnect
        self._reconnections = 0
        self._answered: set[str] = set()

    async def run(self) -> Answer:
        """The result of the call.

        Raises:
            MCPError: the server answered with an error.
            ToolFailed: the task failed, was cancelled, or is not known any more.
        """
        is_over = False
        try:
            answer = await (self._run_modern() if self._link.is_modern else self._run_legacy())
            is_over = True
        finally:
            if not is_over and self._state.status not in _TERMINAL:
                await self._cancel()
        return answer

    async def _run_legacy(self) -> Answer:
        while self._state.status == "working":
            await anyio.sleep(self._state.poll_s)
            await self._poll()
        if self._state.status in _TERMINAL:
            return await self._ask("tasks/result")
        return await self._result_of_unfinished()

    async def _result_of_unfinished(self) -> Answer:
        """Wait for the result, which makes the server send its requests for input. Meanwhile the status tells that the
        server is alive, and what it does."""
        from mcp.shared.exceptions import MCPError

        answer: Answer | None = None
        failure: MCPError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_polling)
            try:
                answer = await self._ask("tasks/result")
            except MCPError as error:  # raised below, since the group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if answer is None:
            raise failure or ToolFailed("the server gave no result of the task")
        return answer

    async def _keep_polling(self) -> None:
        from mcp.shared.exceptions import MCPError

        while self._state.status not in _TERMINAL:
            await anyio.sleep(self._state.poll_s)
            try:
                await self._poll()
            except (MCPError, ToolFailed):  # what waits for the result gets the error as well
                return

    async def _run_modern(self) -> Answer:
        answer: Answer | None = None
        while True:
            if answer is not None:
                match self._state.status:
                    case "completed":
                        return answer.part("result")
                    case "failed":
                        error = answer.top_level("error")
                        message = error.get("message") if isinstance(error, dict) else None
                        raise ToolFailed(f"the task failed: {message or self._state.message or 'no reason is given'}")
                    case "cancelled":
                        raise ToolFailed("the server cancelled the task")
                    case "input_required":
                        await self._update(answer.top_level("inputRequests"))
            await anyio.sleep(self._state.poll_s if answer is not None else _MIN_POLL_S)
            answer = await self._poll()

    async def _poll(self) -> Answer:
        answer = await self._ask("tasks/get")
        state = TaskState.read(answer.summary())
        if state.task_id != self._state.task_id:
            raise ToolFailed("the server answered with another task than was asked for")
        self._state = state
        self._on_message(state.message)
        self._call.heard()
        return answer

    async def _update(self, requests: Any) -> None:
        """Answer what was not answered before: a server repeats requests until it has read the answers."""
        new = {key: request for key, request in (requests or {}).items() if key not in self._answered}
        if new:
            self._answered |= new.keys()
            await self._ask("tasks/update", inputResponses=await self._respond(new))

    async def _ask(self, method: str, **more: Any) -> Answer:
        """A request about the task, repeated over the next connection if this one is lost."""
        from mcp.shared.exceptions import MCPError

        while True:
            try:
                params = {"taskId": self._state.task_id, **more}
                return await self._link.request(method, params, features=self._features)
            except MCPError as error:
                is_lost = is_end(error) or is_broken_off(error)
                if not is_lost or self._reconnections == _MAX_RECONNECTIONS:
                    raise
                self._reconnections += 1
                if is_end(error):
                    self._link.lost.set()
                self._link = await self._reconnect()

    async def _cancel(self) -> None:
        from mcp.shared.exceptions import MCPError

        with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_S):
            try:
                await self._link.request("tasks/cancel", {"taskId": self._state.task_id}, features=self._features)
            except MCPError as error:
                logger.debug("a task can't be cancelled: %s", error)
