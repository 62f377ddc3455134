"""Work on large messages, in a thread: parsing or writing one does not hold up what else the event loop has to do.

One at a time in the whole process. Python's JSON functions hold the interpreter's lock, so two at once would take as
long and twice the memory; `json_size` bounds how long one takes. After each there is a pause, in which the lock is free
for what is small. Meanwhile the garbage collector is off: it would look through a growing tree again and again, ten
times as long as parsing takes.
"""

from __future__ import annotations

import gc
import sys
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
"""Shorter ones are left out; so much work holds up nobody."""
_SWITCH_SECONDS = 0.001

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Turns:
    """Whose turn it is to do large work, and from when on."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)
        self._pause_ends = 0.0

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        async with self._lock:
            await anyio.sleep(max(0.0, self._pause_ends - anyio.current_time()))
            began = anyio.current_time()
            try:
                return await anyio.to_thread.run_sync(without_collector, function, *args, limiter=self._thread)
            finally:
                now = anyio.current_time()
                pause = min(now - began, _MAX_PAUSE_SECONDS)
                self._pause_ends = now + pause if pause >= _MIN_PAUSE_SECONDS else 0.0


_turns: RunVar[_Turns] = RunVar("codemode_server.off_loop")


def switch_threads_often() -> None:
    """Set how long a thread that computes may keep the event loop waiting, each time that it has something to do.

    A program of a moment takes some twenty turns of the loop; Python's 5 ms add up to a tenth of a second.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


async def run_large(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function` in a thread, after the large work of others that came first."""
    turns = _turns.get(None)
    if turns is None:
        turns = _Turns()
        _turns.set(turns)
    return await turns.run(function, *args)


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
    """Whether a JSON value is large; looks at a part of it only."""
    characters, values, waiting = 0, 0, [value]
    while waiting:
        found = waiting.pop()
        values += 1
        if isinstance(found, str):
            characters += len(found)
        elif isinstance(found, dict):
            values += len(found)
            if values <= _LARGE_VALUES:
                waiting += found.keys()
                waiting += found.values()
        elif isinstance(found, list):
            values += len(found)
            if values <= _LARGE_VALUES:
                waiting += found
        if characters > LARGE_BYTES or values > _LARGE_VALUES:
            return True
    return False
