"""What a program that runs again has still to call: waiting for these calls, and naming them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import anyio

from codemode_server.change_signal import ChangeSignal
from codemode_server.domain.calls import ToolCall

_MAX_NAMES = 3

T = TypeVar("T")


async def left_when_quiet(
    left: Callable[[], list[T]],
    *,
    changed: ChangeSignal,
    patience_s: Callable[[], float],
    has_others: Callable[[], bool],
) -> list[T]:
    """What is left of the expected calls once all are made, or once nothing has changed for `patience_s` and
    `has_others` says that nothing else of the program is in flight."""
    while left():
        with anyio.move_on_after(patience_s()) as quiet:
            await changed.wait()
        if quiet.cancelled_caught and not has_others():
            break
    return left()


def named(calls: Sequence[ToolCall]) -> str:
    """`call 1 (github/create_issue), …`."""
    shown = ", ".join(f"call {it.seq} ({it.server}/{it.tool})" for it in calls[:_MAX_NAMES])
    return f"{shown} and {len(calls) - _MAX_NAMES} more" if len(calls) > _MAX_NAMES else shown
