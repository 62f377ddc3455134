"""The lines of a host that came over a socket, in place of standard input and output."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

MAX_LINE_BYTES = 64 << 20
"""A host sends a program, or a file in a form; the bound keeps one connection from taking all memory."""
_MAX_UNANSWERED = 1_000
"""Lines that are read from a host while it takes no answers: each line may cost memory, which all hosts share."""


class SocketLines:
    """Both files of `mcp.server.stdio` for one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._received = BufferedByteReceiveStream(stream)
        self._unanswered = 0
        """Lines since the last write."""
        self._written: anyio.Event | None = None
        """Set at the end of the write that is under way."""

    async def line(self, max_bytes: int = MAX_LINE_BYTES) -> str:
        """The next line without its end; raises `anyio.IncompleteRead` at the end, `anyio.DelimiterNotFound` if it is
        longer."""
        return (await self._received.receive_until(b"\n", max_bytes)).decode("utf-8", "replace")

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            if self._unanswered >= _MAX_UNANSWERED and self._written is not None:
                await self._written.wait()
            self._unanswered += 1
            try:
                yield await self.line()
            except (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError):
                return

    async def write(self, text: str) -> None:
        self._written = written = anyio.Event()
        try:
            await self._stream.send(text.encode())
        finally:
            self._unanswered, self._written = 0, None
            written.set()

    async def flush(self) -> None:
        """All is sent already."""
