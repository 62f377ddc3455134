"""The guardrail `domains`: which hosts the addresses in the arguments of a call may name.

Addresses are found in every text, percent-decoded too, and read by `urlsplit`, `idna` and `ipaddress`; one that these
can't read, or that other readers may read in another way (a backslash before the path), is blocked. In a sentence an
address ends at white space or a quotation mark; a program that gets the whole text takes these for user information if
an `@` follows, so both readings count. A host that stands alone, without `//`, is no address.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

import idna
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from codemode_server.features.guardrails.builtin.texts import ArgumentsGuardrail, Unreadable, spellings_of, texts_of
from codemode_server.features.guardrails.guardrail import GuardedCall

_Domain = Annotated[str, Field(min_length=1, max_length=253)]
_ADDRESS = re.compile(
    r"\b(?:https?|wss?|ftp):[/\\]*"  # whose slashes browsers do not need
    r"|\b[a-z][a-z0-9+.-]{0,30}:[/\\]{2}|(?<![:\w/\\])[/\\]{2,}(?=[^\s/\\]{0,300}\.)",
    re.IGNORECASE,
)
"""Matches the part before the host of an address."""
_FOLDED = re.compile(r"[\t\r\n]")
"""Browsers drop these inside of an address."""
_END_IN_TEXT = re.compile(r"[\s\"'<>`]")
_QUOTES = ("'", '"', "`")
_HOST = re.compile(r"[\w.\u00ad\u200b-\u200d\u3002\uff0e\uff61-]+")
_NAT64 = 0x64FF9B << 64
"""The first 96 bits of an IPv6 address that stands for an IPv4 address."""
_MAX_AUTHORITY = 2_000
"""Characters between the slashes and the path; a longer one is blocked."""
_MAX_ADDRESSES = 10_000
"""Addresses in one call; more are blocked, since nobody sends so many."""


class DomainsSettings(BaseModel):
    """The settings of `domains`. `example.com` means this host, `*.example.com` those below it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: tuple[_Domain, ...] = ()
    """Only these hosts; empty: all."""
    deny: tuple[_Domain, ...] = ()
    """None of these hosts, also if `allow` has them."""
    action: Literal["block", "ask"] = "block"

    @field_validator("allow", "deny")
    @classmethod
    def _domains_are_hosts(cls, domains: tuple[str, ...]) -> tuple[str, ...]:
        for domain in domains:
            if re.search(r"[/:@\s]", domain) and "::" not in domain:
                raise ValueError(f"{domain!r} is no host: leave the scheme, the port and the path away")
        return tuple(
            ".".join(it.lower() if "*" in it else _canonical(it) for it in domain.split("."))
            if "*" in domain
            else _canonical(domain) or domain
            for domain in domains
        )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.allow and not self.deny:
            raise ValueError("give `allow` or `deny`")
        return self


class DomainsGuardrail(ArgumentsGuardrail):
    """Blocks calls with an address of another host."""

    Settings = DomainsSettings
    needs_thread: ClassVar[bool] = False

    def problem(self, call: GuardedCall) -> str:
        number = 0
        for place, text in texts_of(call.arguments):
            for host in hosts_in(text):
                number += 1
                if number > _MAX_ADDRESSES:
                    raise Unreadable(f"the arguments have more than {_MAX_ADDRESSES:,} addresses")
                if not self._is_allowed(host):
                    return f"{place} of the arguments has an address of {host[:100]!r}, which is not allowed"
        return ""

    def _is_allowed(self, host: str) -> bool:
        allow, deny = self.settings.allow, self.settings.deny
        return bool(host) and (not allow or _is_one_of(host, allow)) and not _is_one_of(host, deny)


def hosts_in(text: str) -> Iterator[str]:
    """Every host that an address in the text may name; empty for one that can't be read."""
    if not any(character in text for character in ":/\\%"):
        return
    for spelling in spellings_of(text):
        for one in dict.fromkeys((spelling, _FOLDED.sub("", spelling))):
            begin = len(one) - len(one.lstrip())
            for found in _ADDRESS.finditer(one):
                before = one[found.start() - 1 : found.start()] if found.start() else ""
                rest = one[found.end() : found.end() + _MAX_AUTHORITY + 1]
                short = re.split(r"[/?#]", _END_IN_TEXT.split(rest, maxsplit=1)[0], maxsplit=1)[0]
                if short:
                    yield _host(short)
                if before in _QUOTES:
                    rest = rest.partition(before)[0]
                elif found.start() != begin and before != "=":  # words stand around it
                    rest = re.split(r"\s", rest, maxsplit=1)[0]
                whole = re.split(r"[/?#]", rest, maxsplit=1)[0]
                if len(whole) > _MAX_AUTHORITY and "@" in one[found.end() :]:
                    yield ""
                elif "@" in whole and whole != short and not _END_IN_TEXT.search(whole.rstrip().rpartition("@")[2]):
                    yield _host(whole.rstrip())


def _host(authority: str) -> str:
    """The host of `user@host:port` and of what follows it in a sentence; empty if readers may differ about it."""
    if len(authority) > _MAX_AUTHORITY or "\\" in authority:
        return ""
    try:
        host = urlsplit(f"//{authority}").hostname or ""
    except ValueError:  # brackets, or letters that become others
        return ""
    if ":" not in host:  # else an address of IPv6
        part = _HOST.match(host)
        host = part[0] if part else ""
    return _canonical(host)


def _canonical(host: str) -> str:
    """One spelling of a host; empty if it can't be read."""
    host = host.strip().rstrip(".").lower()
    with suppress(ValueError):
        return str(_without_embedding(ip_address(host.partition("%")[0])))
    if re.fullmatch(r"[0-9a-fx.]+", host) and host[:1].isdigit():
        with suppress(OSError):  # 0x7f.1 and 2130706433 are addresses too
            return socket.inet_ntoa(socket.inet_aton(host))
    if host.isascii():
        return host
    with suppress(UnicodeError):
        name = idna.encode(host, uts46=True).decode("ascii")
        if name == host.encode("idna").decode("ascii"):  # as Python's own reader sends it
            return name
    return ""


def _without_embedding(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    is_translated = int(address) >> 32 == _NAT64
    return address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFF_FFFF) if is_translated else address)


def _is_one_of(host: str, domains: tuple[str, ...]) -> bool:
    return any(fnmatchcase(host, domain) for domain in domains)
