"""Requests of other processes to cancel an execution: the pages ask, and the product that runs it looks for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.domain.ids import ExecutionId
from codemode_server.executions.execution import Execution

_LOOK_SECONDS = 1.0
"""How often requests are looked for while a program runs."""


class CancelRequests(Protocol):
    """Where requests are stored."""

    def is_requested(self, execution_id: ExecutionId) -> bool:
        """True if somebody asked to cancel this execution since it began to run.

        Raises:
            JournalUnavailable: the store can't be read.
        """


async def cancel_on_request(
    execution: Execution, requests: CancelRequests, cancel: Callable[[ExecutionId], Awaitable[None]]
) -> None:
    """Cancel a live execution once somebody asks for it; returns when it has ended."""
    while not execution.done.is_set():
        with anyio.move_on_after(_LOOK_SECONDS):
            await execution.done.wait()
        try:
            is_requested = not execution.done.is_set() and requests.is_requested(execution.execution_id)
        except JournalUnavailable:  # what the program does next will say so
            continue
        if is_requested:
            await cancel(execution.execution_id)
            return
