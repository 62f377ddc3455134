"""Waits for what has no event of its own."""

from __future__ import annotations

from collections.abc import Callable

import anyio

PATIENCE_S = 60.0
"""For what takes a second on a machine that has nothing else to do: bounds are there for what never comes."""


async def until(is_so: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Waits until it is so; fails after that time."""
    with anyio.fail_after(seconds):
        while not is_so():
            await anyio.sleep(0.01)
