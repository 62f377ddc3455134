"""What a request of a session ends with: the result as it came, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from codemode_server.support.off_loop import run_large

T = TypeVar("T")


class RequestFailed(Exception):
    """Raised for a request that was answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ConnectionEnded(RequestFailed):
    """Raised for a request whose session ended before there was an answer."""

    def __init__(self) -> None:
        super().__init__(-32_000, "Connection closed")


class TaskLost(RequestFailed):
    """Raised when the server made a task of a call and its result can't be had: the task may have done its work."""


class Answer:
    """The result of a request, as it came."""

    def __init__(self, result: dict[str, Any], is_read: anyio.Event | None = None) -> None:
        """`is_read` is set once it was read; None for a small one."""
        self._result = result
        self._is_read = is_read
        self.requires_input = result.get("resultType") == "input_required"
        """True for a result of protocol 2026-07-28 that asks for input: the request is repeated with the answers."""

    async def read(self, function: Callable[[dict[str, Any]], T]) -> T:
        """Applies `function` to the result; in a thread if it is large. Called once."""
        result, self._result = self._result, {}
        if self._is_read is None:
            return function(result)
        try:
            return await run_large(function, result)
        finally:
            self._is_read.set()
