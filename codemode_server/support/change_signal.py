"""Wakes the tasks that wait for a change of some state."""

from __future__ import annotations

import anyio


class ChangeSignal:
    """Whoever waits compares the state again after each change. Used from one event loop."""

    def __init__(self) -> None:
        self._next = anyio.Event()

    async def wait(self) -> None:
        """Wait for the next change; one before this is called does not count."""
        await self._next.wait()

    def notify(self) -> None:
        changed, self._next = self._next, anyio.Event()
        changed.set()
