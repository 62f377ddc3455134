"""The HTTP client of all requests to authorization servers and for metadata, whose addresses a server names.

A server could name any address, so: only https, but for this machine; no redirects; no private address, unless all
addresses of the server are of that kind; small answers in bounded time.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum, auto
from functools import partial
from urllib.parse import urlsplit
from urllib.request import getproxies

import anyio
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
    server_host = urlsplit(server_url).hostname or ""
    async with httpx2.AsyncClient(
        auth=auth,
        timeout=_TIMEOUT_S,
        follow_redirects=False,
        event_hooks={"request": [partial(_check, server_host)], "response": [bounds.bound]},
    ) as client:
        yield client


async def _check(server_host: str, request: httpx2.Request) -> None:
    """Raises `AddressRefused` for an address that the server at this host must not name."""
    url, host = request.url, request.url.host
    if not is_safe_scheme(str(url)):
        raise AddressRefused(f"{url.copy_with(query=None)} is not https, so nothing is sent there")
    if host == server_host or getproxies():  # a proxy may know names that this machine does not
        return
    found = set(map(_network, await _resolve(host)))
    if found != {_Network.PUBLIC} and found != set(map(_network, await _resolve(server_host))):
        raise AddressRefused(f"{host} is an address of a private network, which the server is not in")


class _Network(Enum):
    PUBLIC = auto()
    PRIVATE = auto()
    LINK_LOCAL = auto()
    LOOPBACK = auto()


async def _resolve(host: str) -> list[str]:
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressRefused(f"{host} is not known: {error.strerror or error}") from None
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
