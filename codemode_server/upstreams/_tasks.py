"""Tools that are called as tasks (protocol 2025-11-25): the server answers at once with a task, which is polled."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from codemode_server.domain.errors import ToolFailed
from codemode_server.domain.input_requests import Feature
from codemode_server.upstreams._link import Answer, Link
from codemode_server.upstreams.repairs import as_object, as_text

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

_MIN_POLL_MS, _DEFAULT_POLL_MS, _MAX_POLL_MS = 100.0, 1_000.0, 30_000.0
_CANCEL_S = 2.0


async def task_result(link: Link, created: Answer, features: frozenset[Feature], heard: ProgressFnT) -> Answer:
    """The result of the task with which the server has answered a call; cancels the task if this is cancelled. `heard`
    gets the messages of its status. Raises `MCPError`: as `Link.request`; `ToolFailed`: there is no task."""
    from mcp.shared.exceptions import MCPError

    answered = await created.read(lambda result: result)
    if "task" not in answered:
        return Answer(answered)
    task = as_object(answered["task"])
    identity = {"taskId": task.get("taskId")}
    if not isinstance(identity["taskId"], str):
        raise ToolFailed("the server answered with a task without taskId")
    is_over = False
    try:
        while task.get("status") == "working":
            pause = task.get("pollInterval")
            pause = pause if isinstance(pause, int | float) else _DEFAULT_POLL_MS
            await anyio.sleep(min(_MAX_POLL_MS, max(_MIN_POLL_MS, pause)) / 1e3)  # in this order NaN is the minimum
            task = as_object(await (await link.request("tasks/get", {**identity}, None, features)).read(lambda it: it))
            await heard(0.0, None, as_text(task.get("statusMessage")))
        # A task that needs input asks while its result is waited for.
        answer = await link.request("tasks/result", {**identity}, heard, features)
        is_over = True
        return answer
    finally:
        if not is_over:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CANCEL_S), suppress(MCPError):
                await link.request("tasks/cancel", {**identity}, None, features)
