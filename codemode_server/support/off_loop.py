"""Keeps large messages, and floods of small ones, from blocking the event loop.

Large messages are parsed and written in a thread, one at a time in the whole process: Python's JSON functions hold the
interpreter's lock, so two at once would take as long and twice the memory. After each there is a pause, in which the
lock is free for what is small. A new message is read when no other large work waits, so few are in memory. Meanwhile
the garbage collector is off: it would look through a growing tree again and again.

What comes in many small pieces is handled on the event loop, at a `Pace` that leaves half of the time to others.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

LARGE_BYTES = 64 * 2**10
"""JSON text from here on is parsed in a thread; below, changing threads would take longer than parsing does."""
_LARGE_VALUES = 2_000
_MAX_PAUSE_SECONDS = 0.1
"""A pause takes as long as the work before it, but at most so long: a small program ends in that time."""
_MIN_PAUSE_SECONDS = 0.01
"""Shorter pauses are skipped; so little work blocks nobody."""
_SWITCH_SECONDS = 0.001
_WORK_SECONDS = 0.005
"""Time that one stream works on small pieces before others get their turn."""
_MAX_REST_SECONDS = 0.02

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _LargeWork:
    """Does large work one after the other, with a pause after each."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._reading = anyio.Lock()
        self._waiting = 0
        """Number of waiting tasks that do not read a new message."""
        self._thread = anyio.CapacityLimiter(1)
        self._pause_ends = 0.0

    async def read(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run what reads a new message, once no other work waits."""
        async with self._reading:
            while self._waiting or self._lock.locked() or self._pause_ends > anyio.current_time():
                async with self._lock:
                    await self._pause()
            async with self._lock:
                return await self._work(function, *args)

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            return await self._work(function, *args)
        finally:
            self._lock.release()

    async def _pause(self) -> None:
        await anyio.sleep(max(0.0, self._pause_ends - anyio.current_time()))

    async def _work(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        await self._pause()
        began = anyio.current_time()
        try:
            return await anyio.to_thread.run_sync(without_collector, function, *args, limiter=self._thread)
        finally:
            now = anyio.current_time()
            pause = min(now - began, _MAX_PAUSE_SECONDS)
            self._pause_ends = now + pause if pause >= _MIN_PAUSE_SECONDS else 0.0


_large_work: RunVar[_LargeWork] = RunVar("codemode_server.support.off_loop")


class _Share:
    """Time that all streams of small pieces used of the event loop since their last rest."""

    def __init__(self) -> None:
        self.worked = 0.0
        self.rest_ends = 0.0


_share: RunVar[_Share] = RunVar("codemode_server.support.off_loop.share")


class Pace:
    """The pace of one stream of small pieces. All streams together work for half of the time, whatever comes. One turn
    for others between two pieces is not enough: a program of a moment takes some thirty turns of the event loop, so it
    would wait for thirty pieces of each stream."""

    def __init__(self) -> None:
        self._share = _of_loop(_share, _Share)
        self._began = time.perf_counter()

    def begin(self) -> None:
        """Work begins now: before this the stream waited for what came."""
        self._began = time.perf_counter()

    async def rest(self) -> None:
        """After each piece: let others have their turns if it is time."""
        share, now = self._share, time.perf_counter()
        share.worked += now - self._began
        if share.worked >= _WORK_SECONDS:
            share.rest_ends = now + min(share.worked, _MAX_REST_SECONDS)
            share.worked = 0.0
        if share.rest_ends > now:
            await anyio.sleep(share.rest_ends - now)
            now = time.perf_counter()
        self._began = now


def switch_threads_often() -> None:
    """Set how long a thread that computes may keep the event loop waiting, each time that it has something to do. A
    program of a moment takes some twenty turns of the loop; Python's 5 ms add up to a tenth of a second."""
    sys.setswitchinterval(_SWITCH_SECONDS)


async def run_large(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function` in a thread, after the large work of others that came first."""
    return await _of_loop(_large_work, _LargeWork).run(function, *args)


async def read_large(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Like `run_large`, for reading a new message: runs after all other large work."""
    return await _of_loop(_large_work, _LargeWork).read(function, *args)


def _of_loop(variable: RunVar[T], make: Callable[[], T]) -> T:
    found = variable.get(None)
    if found is None:
        found = make()
        variable.set(found)
    return found


def without_collector(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function` with the garbage collector off, for work that makes a large tree without cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return function(*args)
    finally:
        if was_on:
            gc.enable()


async def run_sized(is_large: bool, function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function`: in a thread if what it works on is large, and here otherwise."""
    return await run_large(function, *args) if is_large else function(*args)


def is_large(value: Any) -> bool:
    """True if a JSON value is large; looks at a part of it only."""
    if not isinstance(value, dict | list):
        return isinstance(value, str) and len(value) > LARGE_BYTES
    characters, waiting = 0, [value]
    for count, item in enumerate(waiting):  # which grows meanwhile
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, dict | list):
            if len(item) > _LARGE_VALUES:
                return True
            waiting += item
            if isinstance(item, dict):
                waiting += item.values()
        if characters > LARGE_BYTES or len(waiting) + count > _LARGE_VALUES:
            return True
    return False
