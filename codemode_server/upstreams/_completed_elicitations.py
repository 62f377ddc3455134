"""Which addresses of an upstream the person is done with, by its `notifications/elicitation/complete`."""

from __future__ import annotations

from collections import deque

from codemode_server.change_signal import ChangeSignal

MAX_COMPLETED = 1_000
"""Of one connection; the oldest are forgotten."""
MAX_ID_CHARACTERS = 1_000


class CompletedElicitations:
    """The ids that were completed: before somebody waits for them, or while somebody does."""

    def __init__(self) -> None:
        self._completed: deque[str] = deque(maxlen=MAX_COMPLETED)
        self._changed = ChangeSignal()

    def take(self, elicitation_id: str) -> None:
        """The upstream reports this one as completed."""
        if len(elicitation_id) <= MAX_ID_CHARACTERS and elicitation_id not in self._completed:
            self._completed.append(elicitation_id)
            self._changed.notify()

    async def wait(self, elicitation_ids: frozenset[str]) -> None:
        """Return once all of these are completed, which may never be."""
        while not elicitation_ids <= set(self._completed):
            await self._changed.wait()
