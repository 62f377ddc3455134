"""Bounds what the framing of HTTP may take: heads, and the lines around the chunks of a body.

httpcore2 and h11 read all that has come before they give up their turn, and what has no content, as `103 Early Hints`
without an end, passes nothing that is bounded above. So a connection reads little at a time, at a `Pace`, and ends when
almost nothing of what came was content.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

from codemode_server.off_loop import Pace

_READ_BYTES = 64 * 2**10
_HEAD_READ_BYTES = 4 * 2**10
"""Before there is content: some 150 of the smallest responses, five milliseconds' work."""
MAX_FRAMING_BYTES = 256 * 2**10
"""h11 takes heads of up to 100 KiB."""
_MAX_FRAMING_OF_CONTENT = 8
"""Bytes of framing allowed for each of content: a chunk of one byte has five."""


def pace(client: httpx2.AsyncClient) -> None:
    """Let all connections of a new client, with or without a proxy, read at a pace.

    httpx2 has no public way to give its transports a network backend, other than to do without its choice of proxies.
    """
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            transport._pool._network_backend = _PacedBackend(transport._pool._network_backend)


class PacedStream(httpcore2.AsyncNetworkStream):
    """A connection. It counts from request to request."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._received_bytes = 0
        self._content_bytes = 0
        self.pace = Pace()
        """Work has begun when something is read. Who reads a body may rest by it as well: nothing counts twice."""

    def note_content(self, size: int) -> None:
        """So many of the bytes that came were content."""
        self._content_bytes += size

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Raises: httpcore2.RemoteProtocolError: too little of what came was content."""
        framing = self._received_bytes - self._content_bytes
        if framing > MAX_FRAMING_BYTES + _MAX_FRAMING_OF_CONTENT * self._content_bytes:
            raise httpcore2.RemoteProtocolError("the server sends heads or chunks almost without content")
        await self.pace.rest()
        most = _READ_BYTES if self._content_bytes else _HEAD_READ_BYTES
        data = await self._stream.read(min(max_bytes, most), timeout)
        self.pace.begin()
        self._received_bytes += len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._received_bytes = self._content_bytes = 0
        await self._stream.write(buffer, timeout)
        self.pace.begin()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> PacedStream:
        return PacedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _PacedBackend(httpcore2.AsyncNetworkBackend):
    """Connects as another does."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._backend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> PacedStream:
        return PacedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> PacedStream:
        return PacedStream(await self._backend.connect_unix_socket(path, timeout, socket_options))

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
