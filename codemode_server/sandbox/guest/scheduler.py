"""Blocks for the program where there are no threads: a pool or a thread runs what it is given at once.

A tool that is given to a thread, a pool or `asyncio.to_thread` is sent at once, so such calls overlap on the host. A
function of the program runs to its end where it is started.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from .link import Link
from .stubs import Stub


class Scheduler:
    """The one place that waits for the host."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def start(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """Run a function; the future has its result."""
        while isinstance(function, functools.partial):
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        future: Future[Any] = Future()
        try:
            if isinstance(function, Stub):
                return function.begin(*args, **kwargs)
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            future.set_exception(error)
        return future

    def wait(self, future: Future[Any]) -> Any:
        self.wait_until(future.done)
        return future.result()

    def wait_until(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Block until a condition holds; False if it did not in time.

        Raises:
            RuntimeError: nothing is left that could make it hold.
        """
        self._link.before_wait()
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while not is_over():
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return False
            if left is None and not self._link.in_flight:
                raise RuntimeError("deadlock: the program waits, and nothing is left that could go on")
            self._link.pump(left)
        return True
