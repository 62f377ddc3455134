"""The channel of a session over the streams of mcp's transports."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from codemode_server.upstreams.answers import ConnectionEnded

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from codemode_server.upstreams.session import Session


class StreamChannel:
    """Messages over a pair of streams."""

    def __init__(self, streams: TransportStreams, *, has_headers: bool = False) -> None:
        self._incoming, self._outgoing = streams
        self.has_headers = has_headers

    async def send(self, message: dict[str, Any], headers: dict[str, str], *, is_urgent: bool = False) -> None:
        from mcp.shared.message import ClientMessageMetadata, SessionMessage
        from mcp_types import jsonrpc_message_adapter

        metadata = ClientMessageMetadata(headers=headers) if headers else None
        try:
            await self._outgoing.send(SessionMessage(jsonrpc_message_adapter.validate_python(message), metadata))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise ConnectionEnded from None

    async def deliver_to(self, session: Session) -> None:
        # The transport closes its streams: a POST that is answered meanwhile could not pass that on to a closed one.
        with suppress(anyio.ClosedResourceError):
            async for item in self._incoming:
                if not isinstance(item, Exception):
                    session.take(item.message)
