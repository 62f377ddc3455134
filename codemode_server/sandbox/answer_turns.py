"""The order in which the answers to a program's calls are sent: that in which they came, although a large one takes
longer to encode than a small one that came after it."""

from __future__ import annotations

import anyio


class Turn:
    """The place of one answer, after another one or as the first."""

    def __init__(self, before: Turn | None = None) -> None:
        self._before = before
        self._is_over = anyio.Event()

    @property
    def is_next(self) -> bool:
        return self._before is None or self._before._is_over.is_set()

    async def wait(self) -> None:
        """Wait until the answer before has been sent, or will never be."""
        if self._before is not None:
            await self._before._is_over.wait()
            self._before = None

    def end(self) -> None:
        """The next one may follow."""
        self._is_over.set()


class AnswerTurns:
    """The turns of the answers of one program."""

    def __init__(self) -> None:
        self._last = Turn()
        self._last.end()

    def take(self) -> Turn:
        """The turn of an answer that has come now."""
        self._last = Turn(self._last)
        return self._last
