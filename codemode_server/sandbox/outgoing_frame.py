"""A frame that is to be sent to a guest; it waits on disk if it is large and the guest reads another one."""

from __future__ import annotations

import tempfile
from typing import IO

import anyio.to_thread
from anyio.abc import ByteSendStream

from codemode_server.sandbox.answer_turns import Turn

_PIECE = 256 * 2**10
"""Bytes that are given to the stream at once: it copies what the guest does not read yet."""


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
