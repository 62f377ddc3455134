"""Every connection of an HTTP upstream reads at a pace: plain, over TLS, and through a proxy of the environment.

httpx2 offers no public way to that, so this fails when a release of it changes how clients are made.
"""

from __future__ import annotations

import httpcore2
import httpx2
import pytest

from codemode_server.upstreams import _paced_network
from codemode_server.upstreams._bounded_http import Bounds
from codemode_server.upstreams._large_results import LargeResults
from codemode_server.upstreams._paced_network import MAX_FRAMING_BYTES, PacedStream
from codemode_server.upstreams.transports.http import _client

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
PLAIN, TLS = "http://a.test/", "https://a.test/"
PROXY = "http://proxy.test:3128"


def client_of(*received: bytes) -> httpx2.AsyncClient:
    """A client whose connections receive the same from everywhere."""
    client = httpx2.AsyncClient()
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            transport._pool._network_backend = httpcore2.AsyncMockBackend(list(received))
    _paced_network.pace(client)
    return client


@pytest.mark.parametrize(("url", "proxy"), [(PLAIN, ""), (TLS, ""), (PLAIN, PROXY), (TLS, PROXY)])
async def test_each_connection_reads_at_a_pace(monkeypatch: pytest.MonkeyPatch, url: str, proxy: str) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name.upper(), "" if name == "no_proxy" else proxy)
    connected = b"HTTP/1.1 200 Connection established\r\n\r\n"
    received = [connected, ANSWER] if proxy and url == TLS else [ANSWER]
    async with client_of(*received) as client:
        assert sum(one is not None for one in client._mounts.values()) == (3 if proxy else 0)
        response = await client.get(url)
    assert response.content == b"pong"
    assert isinstance(response.extensions["network_stream"], PacedStream)


async def test_the_client_of_an_upstream_is_one_of_them() -> None:
    bounds = Bounds(LargeResults(), lambda: 1, answers_in_posts=True)
    async with _client(bounds) as client:
        for transport in (client._transport, *client._mounts.values()):
            if isinstance(transport, httpx2.AsyncHTTPTransport):
                assert isinstance(transport._pool._network_backend, _paced_network._PacedBackend)


@pytest.mark.parametrize("content", [0, 1])
async def test_framing_is_bounded_by_itself_and_by_the_content(content: int) -> None:
    backend = httpcore2.AsyncMockBackend([b"x" * 1_000] * (4 * MAX_FRAMING_BYTES // 1_000))
    stream = PacedStream(await backend.connect_tcp("a.test", 80))
    for _ in range(MAX_FRAMING_BYTES // (1_000 - 9 * content) + 1):
        await stream.read(2**16)
        stream.note_content(content)
    with pytest.raises(httpcore2.RemoteProtocolError, match="almost without content"):
        await stream.read(2**16)


async def test_what_has_content_is_not_bounded_here_and_each_request_begins_anew() -> None:
    backend = httpcore2.AsyncMockBackend([b"x" * 1_000] * 1_000)
    stream = PacedStream(await backend.connect_tcp("a.test", 80))
    for has_content in (True, False, False, False, False):
        await stream.write(b"request")
        for _ in range(200):
            stream.note_content(len(await stream.read(2**16)) if has_content else 0)
