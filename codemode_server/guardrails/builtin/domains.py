"""The guardrail `domains`: which hosts the addresses in the arguments of a call may name.

An address is read in every way in which a library or a browser may read it, and each host that comes of it is looked
at: behind user information, with backslashes, full-width dots, an internationalised name, a numeric address, and
percent-encoded inside of another address. In a sentence an address ends at white space or a quotation mark; a program
that gets the whole text takes these for user information if an `@` follows, so both readings count. A host that stands
alone, without `//`, is no address, nor is one that the program has encoded in another way.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Annotated, ClassVar, Literal, Self

import idna
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from codemode_server.guardrails.builtin.arguments_guardrail import ArgumentsGuardrail
from codemode_server.guardrails.builtin.texts import Unreadable, spellings_of, texts_of
from codemode_server.guardrails.guardrail import GuardedCall

_Domain = Annotated[str, Field(min_length=1, max_length=253)]
_LENIENT = r"(?:https?|wss?|ftp)"
"""Schemes whose slashes browsers do not need."""
_MAX_AUTHORITY = 2_000
"""Characters between the slashes and the path; a longer one is read by nobody, and blocked."""
_ADDRESS = re.compile(
    rf"(?:\b{_LENIENT}:[/\\]*|\b[a-z][a-z0-9+.-]{{0,30}}:[/\\]{{2}}|(?<![:\w/\\])[/\\]{{2,}}(?=[^\s/\\]{{0,300}}\.))"
    rf"(?=([^\s\"'<>`]{{0,{_MAX_AUTHORITY}}}))",
    re.IGNORECASE,
)
"""What stands behind the slashes is looked at only: there may be another address in it."""
_FOLDED = re.compile(r"[\t\r\n]")
"""Browsers drop these inside of an address."""
_END_OF_HOST = re.compile(r"[/?#]"), re.compile(r"[/?#\\]")
_QUOTES = frozenset("\"'`")
_END_IN_TEXT = re.compile(r"[\s\"'<>`]")
"""Where an address ends in a sentence; also no part of a host."""
_WHITE_SPACE = re.compile(r"\s")
_MAX_LABEL = 63
_EMBEDDED_IPV4 = (0xFFFF, 0x64FF9B << 64)
"""The first 96 bits of an IPv6 address that stands for an IPv4 address: mapped, and translated (NAT64)."""
_DOTS = re.compile(r"[\u3002\uff0e\uff61]")
_NO_PART_OF_A_HOST = re.compile(r"[^\w.%\u00ad\u200b-\u200d\u3002\uff0e\uff61-]")
_AFTER_TEXT = ".,;:!?)]}*'\""
"""What stands behind an address in a sentence."""
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
        return tuple(_canonical(domain) for domain in domains)

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
    if ":" not in text and "/" not in text and "\\" not in text and "%" not in text:
        return
    for spelling in spellings_of(text):
        for one in dict.fromkeys((spelling, _FOLDED.sub("", spelling))):
            begin, last_at = len(one) - len(one.lstrip()), one.rfind("@")
            for found in _ADDRESS.finditer(one):
                yield from _hosts(found[1])
                if last_at >= found.start(1):
                    yield from _hosts_behind_quotes(one, found.start(), found.start(1), begin)


def _hosts(rest: str) -> Iterator[str]:
    """The hosts of an address, given what stands behind its slashes, as strict and lenient readers see them."""
    for end in _END_OF_HOST:
        authority = end.split(rest, maxsplit=1)[0]
        if len(authority) == _MAX_AUTHORITY:
            yield ""
            return
        for host in _behind_user_information(authority):
            yield from _spellings_of_host(host)


def _hosts_behind_quotes(text: str, scheme: int, start: int, begin: int) -> Iterator[str]:
    """The hosts for readers who take quotation marks and white space for user information; the address begins at
    `scheme`, what stands behind its slashes at `start`, and the text at `begin` behind white space."""
    rest, before = text[start : start + _MAX_AUTHORITY + 1], text[scheme - 1 : scheme] if scheme else ""
    if before in _QUOTES:
        rest = rest.partition(before)[0]
    elif scheme != begin and before != "=":  # words stand around it, so nobody reads across white space
        rest = _WHITE_SPACE.split(rest, maxsplit=1)[0]
    for end in _END_OF_HOST:
        authority = end.split(rest, maxsplit=1)[0]
        if len(authority) > _MAX_AUTHORITY:
            yield ""
        elif "@" in authority and _END_IN_TEXT.search(authority):
            for host in _behind_user_information(authority.rstrip() if authority == rest else authority):
                if not _END_IN_TEXT.search(host):
                    yield from _spellings_of_host(host)


def _behind_user_information(authority: str) -> Iterable[str]:
    return dict.fromkeys((authority.rpartition("@")[2], authority.partition("@")[2] or authority))


def _spellings_of_host(host: str) -> Iterator[str]:
    """A host with its port and what follows it, as it may be read."""
    if host.startswith("["):
        yield _canonical(host[1:].partition("]")[0])
    elif name := host.partition(":")[0]:
        for one in dict.fromkeys((name.rstrip(_AFTER_TEXT), _NO_PART_OF_A_HOST.split(name, maxsplit=1)[0])):
            yield from dict.fromkeys((_canonical(one), _as_before_2008(one)))


def _canonical(host: str) -> str:
    """One spelling of a host; a host that has none stays as it is, and so matches nothing but `*`."""
    host = _DOTS.sub(".", host.strip()).rstrip(".").lower()
    with suppress(ValueError):
        return str(_without_embedding(ip_address(host.partition("%")[0])))
    if re.fullmatch(r"[0-9a-fx.]+", host) and host[:1].isdigit():
        with suppress(OSError):  # 0x7f.1 and 2130706433 are addresses too
            return socket.inet_ntoa(socket.inet_aton(host))
    return host if host.isascii() else _in_ascii(host)


def _without_embedding(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    is_embedded = isinstance(address, IPv6Address) and int(address) >> 32 in _EMBEDDED_IPV4
    return IPv4Address(int(address) & 0xFFFF_FFFF) if is_embedded else address


def _in_ascii(host: str) -> str:
    """An internationalised host as browsers send it: by UTS #46, so that ß remains a letter of its own."""
    with suppress(UnicodeError):
        labels = idna.uts46_remap(host, std3_rules=False).split(".")
        if all(len(label) <= _MAX_LABEL for label in labels):
            return ".".join(it if it.isascii() else f"xn--{it.encode('punycode').decode('ascii')}" for it in labels)
    return host


def _as_before_2008(host: str) -> str:
    """The host as programs with the older IDNA 2003 send it, Python's own among them: they make `ss` of ß."""
    if not host.isascii():
        with suppress(UnicodeError):
            return _canonical(host.encode("idna").decode("ascii"))
    return _canonical(host)


def _is_one_of(host: str, domains: tuple[str, ...]) -> bool:
    return any(fnmatchcase(host, domain) for domain in domains)
