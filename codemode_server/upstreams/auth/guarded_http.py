"""The HTTP client of all requests to authorization servers and for metadata, whose addresses a server names.

A server could name any address, so: only https, but for this machine; no redirects; no private address, unless all
addresses of the server are of that kind; small answers in bounded time. The address that was checked is the one that
is connected to.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2

from codemode_server.setting_types import is_safe_scheme
from codemode_server.upstreams import _paced_network
from codemode_server.upstreams._bounded_http import Bounds
from codemode_server.upstreams._large_results import LargeResults

_TIMEOUT_S = 10.0
_MAX_BYTES = 256 * 2**10
_LAST_32_BITS = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96")))
"""IPv6 addresses that end with an IPv4 address: NAT64 and IPv4-compatible ones."""
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")


class AddressRefused(httpx2.RequestError):
    """Raised for an address that nothing is sent to."""


@asynccontextmanager
async def guarded_client(server_url: str, auth: httpx2.Auth | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client for what the server at this address names."""
    bounds = Bounds(LargeResults(), lambda: _MAX_BYTES, answers_in_posts=False)
    client = httpx2.AsyncClient(
        auth=auth,
        timeout=_TIMEOUT_S,
        follow_redirects=False,
        event_hooks={"request": [_check_scheme], "response": [bounds.bound]},
    )
    _paced_network.pace(client)
    transport = client._transport
    if isinstance(transport, httpx2.AsyncHTTPTransport):
        server_host = urlsplit(server_url).hostname or ""
        transport._pool._network_backend = _PublicOnly(transport._pool._network_backend, server_host)
    async with client:
        yield client


async def _check_scheme(request: httpx2.Request) -> None:
    if not is_safe_scheme(str(request.url)):
        raise AddressRefused(f"{request.url.copy_with(query=None)} is not https, so nothing is sent there")


class _Network(Enum):
    """What an address leads into."""

    PUBLIC = auto()
    PRIVATE = auto()
    LINK_LOCAL = auto()
    LOOPBACK = auto()
    UNKNOWN = auto()


class _PublicOnly(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses, and to those of the kind that all addresses of the server are.

    The server's addresses are looked up once: an answer that changes later changes nothing. Not used with a proxy.
    """

    def __init__(self, backend: httpcore2.AsyncNetworkBackend, server_host: str) -> None:
        self._backend = backend
        self._server_host = server_host
        self._server_addresses: list[str] | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._allowed(host)
        for address in addresses[:-1]:
            try:
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def _allowed(self, host: str) -> list[str]:
        if self._server_addresses is None:
            found = await _resolve(self._server_host)
            self._server_addresses = self._server_addresses or found
        server = self._server_addresses
        kinds = set(map(_network, server))
        kind = kinds.pop() if len(kinds) == 1 else _Network.PUBLIC
        if host == self._server_host:
            # Of a server with public and other addresses, the public ones.
            return [it for it in server if _network(it) in (kind, _Network.PUBLIC)] or server
        addresses = await _resolve(host)
        reachable = (_Network.PUBLIC,) if kind is _Network.UNKNOWN else (_Network.PUBLIC, kind)
        if any(_network(it) not in reachable for it in addresses):
            raise httpcore2.ConnectError(f"{host} is an address of a private network, which the server is not in")
        return addresses

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("no sockets of files here")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


async def _resolve(host: str) -> list[str]:
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(f"{host} is not known: {error.strerror or error}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _network(address: str) -> _Network:
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback or found.is_unspecified:  # systems connect to themselves for both
        return _Network.LOOPBACK
    if found.is_link_local:
        return _Network.LINK_LOCAL
    if _is_public(address):
        return _Network.PUBLIC
    is_unknown = isinstance(found, ipaddress.IPv6Address) and bool(_embedded(found))
    return _Network.UNKNOWN if is_unknown or found.is_multicast else _Network.PRIVATE


def _is_public(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return _is_public(str(found.ipv4_mapped))
        if (
            found.is_site_local
            or found in _LOCAL_NAT64
            or not all(_is_public(str(within)) for within in _embedded(found))
        ):
            return False
    return found.is_global and not found.is_multicast


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a gateway may send on to."""
    if address.teredo is not None:
        return list(address.teredo)
    if address.sixtofour is not None:
        return [address.sixtofour]
    if any(address in network for network in _LAST_32_BITS):
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return []
