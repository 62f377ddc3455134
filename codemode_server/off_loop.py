"""Work on large messages, in a thread: parsing or writing one does not hold up what else the event loop has to do.

One at a time in the whole process. Python's JSON functions hold the interpreter's lock, so two at once would take as
long and twice the memory; `json_size` bounds how long one takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

LARGE_BYTES = 64 * 2**10
"""JSON text from here on is parsed in a thread; below, changing threads would take longer than parsing does."""
_LARGE_VALUES = 2_000
_limiter: RunVar[CapacityLimiter] = RunVar("codemode_server.off_loop")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def run_large(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call `function` in a thread, after the large work of others that came first."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(1)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(function, *args, limiter=limiter)


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
