"""The HTTP client of all requests to authorization servers and for metadata, whose addresses a server names.

A server could name any address, so: only https, but for this machine; no redirects; no private address, unless all
addresses of the server are of that kind; small answers in bounded time. The address that was checked is the one that
is connected to.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2

from codemode_server.support.setting_types import is_safe_scheme
from codemode_server.upstreams.bounded_http import Bounds

_TIMEOUT_S = 10.0
_MAX_BYTES = 256 * 2**10
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(httpx2.RequestError):
    """Raised for an address that nothing is sent to."""


@asynccontextmanager
async def guarded_client(server_url: str, auth: httpx2.Auth | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client for what the server at this address names."""
    bounds = Bounds(lambda: _MAX_BYTES, answers_in_posts=False)
    client = httpx2.AsyncClient(
        auth=auth,
        timeout=_TIMEOUT_S,
        follow_redirects=False,
        event_hooks={"request": [_check_scheme], "response": [bounds.bound]},
    )
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
    PUBLIC = auto()
    PRIVATE = auto()
    LINK_LOCAL = auto()
    LOOPBACK = auto()


class _PublicOnly(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses, and to those of the kind that all addresses of the server are. The server's
    addresses are looked up once: an answer that changes later changes nothing. Not used with a proxy."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend, server_host: str) -> None:
        self._backend = backend
        self._server_host = server_host
        self._server_addresses: list[str] | None = None

    async def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        addresses = await self._allowed(host)
        for address in addresses[:-1]:
            try:
                return await self._backend.connect_tcp(address, port, *args, **options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._backend.connect_tcp(addresses[-1], port, *args, **options)

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
        if any(_network(it) not in (_Network.PUBLIC, kind) for it in addresses):
            raise httpcore2.ConnectError(f"{host} is an address of a private network, which the server is not in")
        return addresses


async def _resolve(host: str) -> list[str]:
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError(f"{host} is not known: {error.strerror or error}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _network(address: str) -> _Network:
    ip = _behind(ipaddress.ip_address(address.partition("%")[0]))
    if ip.is_loopback or ip.is_unspecified:  # systems connect to themselves for both
        return _Network.LOOPBACK
    if ip.is_link_local:
        return _Network.LINK_LOCAL
    is_public = ip.is_global and not ip.is_multicast and not ip.is_reserved
    return _Network.PUBLIC if is_public else _Network.PRIVATE


def _behind(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that a system or a gateway sends on to, of an IPv6 address that holds one."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    in_nat64 = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None) or in_nat64 or ip
