"""Replaces blocking primitives (asyncio, pools, threads, conditions, sleep) with versions that wait on the host link.

Whatever blocks in a program ends in `Scheduler.wait_until`, and asyncio's selector is the link, so that calls overlap
on the host in all the ways a program may write it. What can't be had is computing at the same time.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import asyncio.threads
import concurrent.futures
import concurrent.futures.thread
import contextvars
import functools
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from time import monotonic
from typing import Any

from . import loops
from .link import Link
from .loops import Reentrant
from .replacements import replace_members
from .runner import report_thread
from .stubs import Stub


class Scheduler:
    """The one place that waits for the host."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def start(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future[Any]:
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
        """Block until a condition holds; False if it did not in time. Raises `RuntimeError` if nothing is left that
        could make it hold."""
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


class Loop(Reentrant, asyncio.base_events.BaseEventLoop):
    """An event loop that waits for the host."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def _wait(self, timeout: float | None) -> None:
        self._scheduler.wait_until(lambda: bool(self._ready), timeout)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        started = self._scheduler.start(func, args, {}) if executor is None else executor.submit(func, *args)
        return asyncio.wrap_future(started, loop=self)

    def _process_events(self, event_list: object) -> None:
        """There are no file descriptors."""

    def _write_to_self(self) -> None:
        """There is no other thread that could wake it."""


def install(scheduler: Scheduler) -> Callable[[Any], Any]:
    """Put all of it in place; gives what runs an awaitable to its end."""
    _install_sleep(scheduler)
    _install_pools(scheduler)
    _install_threads(scheduler)
    _install_waits(scheduler)
    _install_asyncio(scheduler)
    return loops.install(lambda: Loop(scheduler))


def _install_sleep(scheduler: Scheduler) -> None:
    def sleep(seconds: float, /) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        scheduler.wait_until(lambda: False, seconds)

    replace_members(time, sleep=sleep)


def _install_asyncio(scheduler: Scheduler) -> None:
    async def to_thread(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        context = contextvars.copy_context()
        return await asyncio.wrap_future(context.run(scheduler.start, func, args, kwargs))

    replace_members(asyncio, to_thread=to_thread)
    replace_members(asyncio.threads, to_thread=to_thread)


def _install_pools(scheduler: Scheduler) -> None:
    class ThreadPoolExecutor(Executor):
        """Runs each function when it is submitted; tools that are submitted overlap on the host."""

        def __init__(
            self,
            max_workers: int | None = None,
            thread_name_prefix: str = "",
            initializer: Callable[..., Any] | None = None,
            initargs: tuple[Any, ...] = (),
        ) -> None:
            if max_workers is not None and max_workers <= 0:
                raise ValueError("max_workers must be greater than 0")
            self._pending: set[Future[Any]] = set()
            self._closed = False
            if initializer is not None:
                initializer(*initargs)

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future = scheduler.start(fn, args, kwargs)
            self._pending.add(future)
            future.add_done_callback(self._pending.discard)
            return future

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            self._closed = True
            if cancel_futures:
                for future in list(self._pending):
                    future.cancel()
            if wait:
                scheduler.wait_until(lambda: not self._pending)

    # There are no processes either; a pool of them means the same to a program that only wants the results.
    replace_members(concurrent.futures, ThreadPoolExecutor=ThreadPoolExecutor, ProcessPoolExecutor=ThreadPoolExecutor)
    replace_members(concurrent.futures.thread, ThreadPoolExecutor=ThreadPoolExecutor)


def _install_threads(scheduler: Scheduler) -> None:
    def start(self: Any) -> None:
        if self._started.is_set():
            raise RuntimeError("threads can only be started once")
        self._started.set()
        if type(self).run is threading.Thread.run and self._target:
            self._result = scheduler.start(self._target, self._args, self._kwargs)
        else:
            self._result = scheduler.start(self.run, (), {})
        self._result.add_done_callback(lambda ended: _report(self, ended))

    def _report(thread: threading.Thread, ended: Future[Any]) -> None:
        error = ended.exception()
        if error is not None:
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))

    def join(self: Any, timeout: float | None = None) -> None:
        if not self._started.is_set():
            raise RuntimeError("cannot join thread before it is started")
        scheduler.wait_until(self._result.done, timeout)

    def is_alive(self: Any) -> bool:
        return self._started.is_set() and not self._result.done()

    threading.excepthook = report_thread
    replace_members(threading.Thread, start=start, join=join, is_alive=is_alive)


def _install_waits(scheduler: Scheduler) -> None:
    """Events, queues, semaphores and futures wait on a `Condition`; a lock itself has nobody to wait for."""

    class Waiter:
        is_released = False

        def release(self) -> None:
            self.is_released = True

    def wait(self: Any, timeout: float | None = None) -> bool:
        waiter = Waiter()
        self._waiters.append(waiter)
        state = self._release_save()
        try:
            return scheduler.wait_until(lambda: waiter.is_released, timeout)
        finally:
            self._acquire_restore(state)
            if not waiter.is_released:
                self._waiters.remove(waiter)

    replace_members(threading.Condition, wait=wait)
    replace_members(queue, SimpleQueue=vars(queue)["_PySimpleQueue"])
