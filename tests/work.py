"""How much work a call is, in a unit that is the same on a slow and on a busy machine, or beside another call."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

_ROUNDS = 3


def lines_run(call: Callable[[], object]) -> int:
    """The number of lines of Python that run, in all functions that are called on the way."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def seconds_of(call: Callable[[], object]) -> float:
    """Processor time of this thread, the best of some rounds: for comparison with another call in the same test."""
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.thread_time()
        call()
        best = min(best, time.thread_time() - began)
    return best
