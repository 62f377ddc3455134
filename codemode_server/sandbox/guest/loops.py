"""Re-entrant asyncio event loops, so that programs may call `asyncio.run` inside a running loop.

Made for the loops of a backend: `Reentrant` makes one that may be entered again from inside, `install` has asyncio use
it everywhere.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import asyncio.runners
import asyncio.tasks
import collections
import heapq
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from .replacements import replace_members


class Reentrant(asyncio.BaseEventLoop):
    """A mixin for one of asyncio's own loops."""

    _scheduled: list[Any]
    _ready: collections.deque[Any]
    _stopping: bool

    def _wait(self, timeout: float | None) -> None:
        raise NotImplementedError

    def _run_once(self) -> None:
        # As in the base class, but a callback may run the loop itself and leave fewer behind than there were.
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        if self._ready or self._stopping:
            self._look()
        else:
            self._wait(max(0.0, self._scheduled[0].when() - self.time()) if self._scheduled else None)
        now = self.time()
        while self._scheduled and self._scheduled[0].when() <= now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._ready.append(handle)
        for _ in range(len(self._ready)):
            if not self._ready:
                break
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _look(self) -> None:
        """Take in what has happened, without waiting."""

    def run_until_complete(self, future: Any) -> Any:
        if asyncio.events._get_running_loop() is not self:
            return super().run_until_complete(future)  # which refuses a loop that another thread runs
        return self._run_inside(asyncio.ensure_future(future, loop=self))

    def close(self) -> None:
        if not self.is_running():  # the program's `new_event_loop` is the running one
            super().close()

    def _run_inside(self, future: asyncio.Future[Any]) -> Any:
        """Go on with the loop from one of its own callbacks until the future is done."""
        task = asyncio.current_task(self)
        if task is not None:
            asyncio.tasks._leave_task(self, task)
        try:
            while not future.done():
                self._run_once()
        finally:
            if task is not None:
                asyncio.tasks._enter_task(self, task)
        return future.result()


# Python 3.14 has it under a private name only.
_PolicyBase: Any = getattr(asyncio.events, "_AbstractEventLoopPolicy", None) or asyncio.events.AbstractEventLoopPolicy


class _Policy(_PolicyBase):  # type: ignore[misc]
    def __init__(self, make: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._make = make
        self._own = threading.local()
        """Its `loop` is that of a thread."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop | None = getattr(self._own, "loop", None)
        if loop is None or loop.is_closed():
            loop = self._own.loop = self._make()
        return loop

    def set_event_loop(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._own.loop = loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        running = asyncio.events._get_running_loop()
        return running if isinstance(running, Reentrant) else self._make()


def install(make: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[Any], Any]:
    replace_members(asyncio.events, _event_loop_policy=_Policy(make))

    def run(main: Coroutine[Any, Any, Any], *, debug: bool | None = None, loop_factory: Any = None) -> Any:
        with _Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)

    replace_members(asyncio, run=run, Runner=_Runner, gather=_gather)
    replace_members(asyncio.runners, run=run, Runner=_Runner)
    return run


def _gather(*given: Any, _gather: Any = asyncio.gather, **options: Any) -> Any:
    """`asyncio.gather`; where no loop runs, a coroutine that does it."""

    async def later() -> Any:
        return await _gather(*given, **options)

    return later() if asyncio.events._get_running_loop() is None else _gather(*given, **options)


class _Runner(asyncio.runners.Runner):  # type: ignore[misc]
    """Runs in the running loop, if there is one."""

    def run(self, coro: Any, *, context: Any = None) -> Any:
        running = asyncio.events._get_running_loop()
        if isinstance(running, Reentrant):
            return running.run_until_complete(coro)
        return super().run(coro if asyncio.iscoroutine(coro) else _as_coroutine(coro), context=context)

    def close(self) -> None:
        if not isinstance(asyncio.events._get_running_loop(), Reentrant):
            super().close()


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable
