"""The lines of a host that came over a socket, in place of standard input and output."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

MAX_LINE_BYTES = 64 << 20
"""A host sends a program, or a file in a form; the bound keeps one connection from taking all memory."""


class SocketLines:
    """Both files of `mcp.server.stdio` for one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._received = BufferedByteReceiveStream(stream)

    async def line(self, max_bytes: int = MAX_LINE_BYTES) -> str:
        """The next line without its end; raises `anyio.IncompleteRead` at the end, `anyio.DelimiterNotFound` if it is
        longer."""
        return (await self._received.receive_until(b"\n", max_bytes)).decode("utf-8", "replace")

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                yield await self.line()
            except (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError):
                return

    async def write(self, text: str) -> None:
        await self._stream.send(text.encode())

    async def flush(self) -> None:
        """All is sent already."""
