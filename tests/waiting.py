"""Waits for what has no event of its own."""

from __future__ import annotations

from collections.abc import Callable

import anyio


async def until(is_so: Callable[[], object], seconds: float = 20) -> None:
    """Waits until it is so; fails after that time."""
    with anyio.fail_after(seconds):
        while not is_so():
            await anyio.sleep(0.01)
