"""A frame that is to be sent to a guest, in its turn; it waits on disk if it is large and the guest reads another one.

Answers to calls are sent in the order in which they came, although a large one takes longer to encode than a small one
that came after it.
"""

from __future__ import annotations

import tempfile
from typing import IO

import anyio
import anyio.to_thread
from anyio.abc import ByteSendStream

_PIECE = 256 * 2**10
"""Bytes that are given to the stream at once: it copies what the guest does not read yet."""


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


class OutgoingFrame:
    """A frame that is to be sent."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self._file: IO[bytes] | None = None
        self.size = sum(map(len, pieces))
        self.turn = Turn()

    def after(self, turn: Turn) -> OutgoingFrame:
        """The same frame, to be sent when it is its turn."""
        self.turn = turn
        return self

    def put_on_disk(self) -> None:
        """Hold it in a file without a name rather than in memory, if there is room for that."""
        try:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        except OSError:
            return
        try:
            file.writelines(self._pieces)
            file.seek(0)
        except OSError:
            file.close()
        else:
            self._file, self._pieces = file, ()

    async def send(self, stream: ByteSendStream) -> None:
        if self._file is not None:
            while piece := await anyio.to_thread.run_sync(self._file.read, _PIECE):
                await stream.send(piece)
        for whole in self._pieces:
            for start in range(0, len(whole), _PIECE):
                await stream.send(whole[start : start + _PIECE])

    def close(self) -> None:
        """It has been sent, or will never be."""
        self.turn.end()
        if self._file is not None:
            self._file.close()
