"""What stands in for threads where there are none: strands, which take turns at the points where one waits.

A strand is a function given to a thread, a pool or `asyncio.to_thread`. A stub is sent at once. A function of the
program's runs as its async variant (see `async_variants`), so that many run at the same time; any other function runs
to its end in place. Whoever blocks, wherever, lets the others go on meanwhile.
"""

from __future__ import annotations

import collections
import functools
import heapq
import itertools
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from . import async_variants
from .clocks import real_monotonic
from .link import Link
from .stubs import Stub


class _Park:
    """Awaited in an async variant: gives the turn away until a future is done or a time has come."""

    def __init__(self, future: Future[Any] | None, until: float = 0.0) -> None:
        self.future = future
        self.until = until

    def __await__(self) -> Generator[_Park, None, Any]:
        yield self
        return None if self.future is None else self.future.result()


class _Strand:
    def __init__(self, steps: Generator[_Park, None, Any], future: Future[Any]) -> None:
        self.steps = steps
        self.future = future


class Scheduler:
    """Runs strands and blocks for the program; the one place that waits for the host."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._ready: collections.deque[_Strand] = collections.deque()
        self._asleep: list[tuple[float, int, _Strand]] = []
        self._order = itertools.count()

    def start(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
        """Run a function as far as it goes; the future has its result."""
        while isinstance(function, functools.partial):
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        future: Future[Any] = Future()
        try:
            if isinstance(function, Stub):
                return function.begin(*args, **kwargs)
            variant = async_variants.async_variant_of(function)
            if variant is None:
                future.set_result(function(*args, **kwargs))
            else:
                self._step(_Strand(variant(self.step_into, *args, **kwargs).__await__(), future))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            future.set_exception(error)
        return future

    async def step_into(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A call made inside an async variant: waits without holding the others up, if it can."""
        if isinstance(function, Stub):
            return await _Park(function.begin(*args, **kwargs))
        if function is time.sleep:
            return await _Park(None, real_monotonic() + args[0])
        variant = async_variants.async_variant_of(function)
        if variant is None:
            return function(*args, **kwargs)
        return await variant(self.step_into, *args, **kwargs)

    def wait(self, future: Future[Any]) -> Any:
        self.wait_until(future.done)
        return future.result()

    def wait_until(self, is_over: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Block until something is so; False if it was not in time.

        Raises:
            RuntimeError: nothing is left that could make it so.
        """
        self._link.before_wait()
        deadline = None if timeout_s is None else real_monotonic() + timeout_s
        while not is_over():
            left = None if deadline is None else deadline - real_monotonic()
            if left is not None and left <= 0:
                return False
            self.turn(left)
        return True

    def turn(self, timeout_s: float | None) -> None:
        """Let one strand go on, or wait for the host so long."""
        if self._ready:
            self._step(self._ready.popleft())
            return
        if self._asleep:
            until_next = max(0.0, self._asleep[0][0] - real_monotonic())
            timeout_s = until_next if timeout_s is None else min(timeout_s, until_next)
        if timeout_s is None and not self._link.in_flight:
            raise RuntimeError("deadlock: the program waits, and nothing is left that could go on")
        self._link.pump(timeout_s)
        while self._asleep and self._asleep[0][0] <= real_monotonic():
            self._ready.append(heapq.heappop(self._asleep)[2])

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def _step(self, strand: _Strand) -> None:
        try:
            park = strand.steps.send(None)
        except StopIteration as end:
            strand.future.set_result(end.value)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            strand.future.set_exception(error)
        else:
            if park.future is None:
                heapq.heappush(self._asleep, (park.until, next(self._order), strand))
            else:
                park.future.add_done_callback(lambda _: self._ready.append(strand))
