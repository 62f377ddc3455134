"""An upstream behind an address: streamable HTTP, and the older HTTP+SSE.

mcp's transports follow a redirect only within the endpoint's origin, and here httpx follows none, so a header meant for
one server, `Authorization` above all, never reaches another.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from codemode_server.upstreams._messages import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

    from codemode_server.upstreams.transports._bounded_http import Bounds

CONNECT_S = 10.0
_IDLE_S = 24 * 3600.0
"""An open stream may be silent as long as it likes: each call has its own timeout."""

refusals: ContextVar[list[str] | None] = ContextVar("refusals", default=None)
"""Where the HTTP errors of this call are noted, `503 Service Unavailable`: mcp's error for them says only that there
was one. mcp runs a request's POST in the context of its caller."""


class HttpTransport:
    """One connection to one address."""

    def __init__(
        self,
        url: str,
        transport: Literal["http", "sse"],
        headers: Mapping[str, str],
        *,
        max_message_bytes: Callable[[], int] = lambda: MAX_MESSAGE_BYTES,
    ) -> None:
        self._url = url
        self._transport = transport
        self._headers = dict(headers)
        self._max_message_bytes = max_message_bytes

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Yield the streams of a session.

        Raises:
            ExceptionGroup: of httpx2's errors, at any time until it is left.
        """
        from codemode_server.upstreams.transports._bounded_http import Bounds, LargeResults, Restored

        large = LargeResults()
        bounds = Bounds(large, self._max_message_bytes, answers_in_posts=self._transport == "http")
        if self._transport == "sse":
            from mcp.client.sse import sse_client

            async with sse_client(
                self._url,
                headers=self._headers,
                timeout=CONNECT_S,
                sse_read_timeout=_IDLE_S,
                httpx_client_factory=partial(_client, bounds),
            ) as (incoming, outgoing):
                yield Restored(incoming, large), outgoing
        else:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            timeout = httpx2.Timeout(CONNECT_S, write=60.0, read=None, pool=None)
            async with (
                _client(bounds, self._headers, timeout) as client,
                streamable_http_client(self._url, http_client=client) as (incoming, outgoing),
            ):
                yield Restored(incoming, large), outgoing

    def why_ended(self) -> str | None:
        """Nothing is known here that the errors don't say."""
        return None

    def last_words(self) -> str:
        """There is no stderr."""
        return ""


def origin(url: str) -> str:
    """The address as it may be shown: without user, query and fragment, which can hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _client(
    bounds: Bounds,
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    import httpx2

    from codemode_server.upstreams.transports import _paced_network

    client = httpx2.AsyncClient(
        headers=headers,
        timeout=timeout,
        auth=auth,
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        event_hooks={"response": [_note_refusal, bounds.bound]},
    )
    _paced_network.pace(client)
    return client


async def _note_refusal(response: Any) -> None:
    noted = refusals.get()
    if noted is not None and response.status_code >= 400:
        noted.append(f"{response.status_code} {response.reason_phrase}".strip())
