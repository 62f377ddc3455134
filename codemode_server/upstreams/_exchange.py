"""One call over a link, from its request to its result: input that the server asks for, and the task it may become."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from codemode_server.domain.errors import ToolFailed
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.upstreams._calls_in_flight import CallInFlight
from codemode_server.upstreams._link import Answer, Link
from codemode_server.upstreams._tasks import TaskRun, TaskState

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
    """Whether a call was answered with a task, in either protocol."""
    return answer.top_level("resultType") == "task" or (
        isinstance(answer.top_level("task"), dict) and answer.top_level("content") is None
    )


def _input_request(request: object) -> InputRequest:
    method = request.get("method") if isinstance(request, dict) else None
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(method, str):
        raise InputRefused("the request has no method")
    return InputRequest(method, params if isinstance(params, dict) else {})
