"""Recognises what is written in text with a syntax of its own: e-mail, IP and postal addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address

from codemode_server.privacy.evidence import Against
from codemode_server.privacy.findings import Kind

Evidence = Kind | Against | None

_AT = re.compile(r"@(?<=[\w.!#$%'*+=^`{}~-]@)(?=(?:[^\W_][\w-]{0,62}\.){1,126}[^\W\d_][\w-])")
"""An @ with what may be an address on both sides. All others cost next to nothing."""
_LOCAL_BACKWARDS = re.compile(r"[\w.!#$%'*+=^`{}~-]{1,64}")
_PARAMETER = re.compile(r"[\w-]{1,40}=(?=[^=])")
"""The name of a parameter before an address, as in `?email=ann@example.org`."""
_PATH = re.compile(r":[^\s\x00]")
_CONFIDENCE, _PRIVATE_CONFIDENCE = 0.97, 0.9
"""A password before a private domain is surer than an address: `https://ann:secret@db.internal`."""
_DOMAIN = re.compile(r"[\w.-]{3,253}")
_LABEL = re.compile(r"[^\W_](?:[^\W_]|-){0,62}")
_TOP_LEVEL = re.compile(r"[^\W\d_]{2,24}|xn--[a-z0-9-]{2,40}", re.IGNORECASE)
_OPENING = "'`{=*%$#!.^"
"""Characters that an address may begin with by the letter of the standard, and in texts never does."""
_FILE_ENDS_LIST = (
    "png jpg jpeg gif svg webp ico css js mjs ts tsx jsx py rb go rs java html htm json xml yml yaml toml txt md"
    " csv pdf zip gz tgz tar exe dll so lock log sh map scss whl jar localhost invalid"
)
_FILE_ENDS = frozenset(_FILE_ENDS_LIST.split())
_COUNTRIES_TOO = frozenset({"py", "rs", "md", "sh", "so", "zip"})
"""Ends of files that are domains of countries, or other ones of the Internet, too."""
_PRIVATE_TOP_LEVELS = (".local", ".internal")
"""Domains within an organization: in URLs and paths of `scp`, what stands before the @ is a user of a machine."""
_COMMON_TOP_LEVELS = frozenset({"com", "org", "net", "edu", "gov", "info", "example"})
_HOST = re.compile(r"[^\W\d_](?:[^\W_]|-){1,62}")
"""A name of a host that is no version and no size of a picture."""
_IPV4 = re.compile(r"\d(?<![\w.-]\d)\d{0,2}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w-]|\.\d)")
_OF_IPV6 = "0123456789abcdefABCDEF:"
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:|::)[0-9A-Fa-f:]{1,40}(?:\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])")

_WITHIN_IPV4 = re.compile(r"\.(?=\d{1,3}\.\d{1,3}\.\d)")
_WITHIN_IPV6 = re.compile(r"::|:(?=[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:)")
"""What each address has somewhere. What begins with a rare character is searched in no time."""
_MAX_IPV4_BEFORE, _MAX_IPV6_BEFORE = 3, 45
"""Characters of an address before that."""

_LINKS = r"(?:(?:de|du|des|del|della|dei|da|do|das|dos|la|las|le|les|los|el|e|van|der|den) |[dl]['’])"
_NAME = rf"(?:{_LINKS}{{0,3}}[^\W\d_a-zß-öø-ÿ][\w'’.-]{{0,30}})"
"""A capitalised word with the small ones before it."""
_NUMBER = r"[0-9]{1,5}(?: ?[a-zA-Z](?![^\W_]))?(?:[-/][0-9]{1,4})?"
_AFTER = re.compile(rf",? (?:n[.ºo°]{{1,2}} ?)?{_NUMBER}(?!\w)")
_NAMED_AFTER = re.compile(rf" {_NAME}(?: {_NAME}){{0,3}},? (?:n[.ºo°]{{1,2}} ?)?{_NUMBER}(?!\w)")
_NAMED = re.compile(rf" {_NAME}(?: {_NAME}){{0,3}}")
_NUMBER_AND_NAME = re.compile(rf"(?<![\w.-]){_NUMBER},? {_NAME}(?: {_NAME}){{0,3}} \Z")
_NUMBER_BEFORE = re.compile(rf"(?<![\w.-]){_NUMBER}(?:,? (?:bis|ter|quater))?,? \Z")
# fmt: off
_BEHIND_NAME = (
    "Street St Avenue Ave Road Rd Lane Ln Drive Dr Boulevard Blvd Court Ct Terrace Way Close Crescent Square Parkway"
)
"""English: `12 Mill Road`."""
_BEFORE_NAME = (
    "Via Viale Piazza Corso Vicolo Strada Calle Avenida Plaza Paseo Carrera Ronda Rua Travessa Praça Alameda Largo"
    " Estrada C/ Av. Avda."
)
"""Italian, Spanish, Portuguese: `Via Roma 12`."""
_BEHIND_NUMBER = "rue avenue boulevard chemin allée impasse quai cours chaussée"
"""French: `12 rue de la Paix`."""
_IN_COMPOUNDS = (
    "straße strasse str. gasse allee platz weg ring damm ufer straat laan plein gracht kade"
    " Straße Allee Platz Weg Ring Damm Ufer"
)
"""German and Dutch: `Lindenstraße 12`, `Berliner Platz 12`."""
# fmt: on


def _any_of(words: Iterable[str]) -> str:
    """A pattern for the longest of these words, which looks at each character of a text once and not for each word."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[:1], []).append(word[1:])
    may_end = rests.pop("", None) is not None
    branches = [re.escape(first) + _any_of(those) for first, those in rests.items()]
    return f"(?:{'|'.join(branches)}){'?' if may_end else ''}" if branches else ""


class _Form(Enum):
    """Where the word for a street stands."""

    BEHIND_NAME = _BEHIND_NAME
    BEFORE_NAME = _BEFORE_NAME
    BEHIND_NUMBER = _BEHIND_NUMBER
    IN_COMPOUNDS = _IN_COMPOUNDS


_FORMS = {word: form for form in _Form for word in form.value.split()}
_STREET_WORDS = re.compile(_any_of(_FORMS))
_STREET_CONFIDENCE = 0.85
_BEFORE_CHARACTERS = 80
_AFTER_CHARACTERS = 120


def emails_in(text: str) -> Iterator[tuple[int, int, float]]:
    """Start, end and confidence of each address."""
    floor = 0
    for found in _AT.finditer(text):
        at = found.start()
        domain = _DOMAIN.match(text, at + 1)
        if domain and (end := _domain_end(domain[0])) and (local := _local_part(text[max(floor, at - 64) : at])):
            start = at - len(local.lstrip(_OPENING))
            is_repository = text.startswith(":", at + 1 + end) and text[start:at] == "git"
            is_private = domain[0][:end].casefold().endswith(_PRIVATE_TOP_LEVELS)
            if start < at and not is_repository and not (is_private and _is_login(text, start, at + 1 + end)):
                yield start, at + 1 + end, _PRIVATE_CONFIDENCE if is_private else _CONFIDENCE
                floor = at + 1 + end


def _is_login(text: str, start: int, end: int) -> bool:
    """Whether a user of a machine stands there: `ssh://ann@db.internal`, `ann@db.internal:/srv`."""
    return text.startswith("://", max(0, start - 3)) or _PATH.match(text, end) is not None


def _local_part(before: str) -> str:
    """What stands directly before an @, as far as it may belong to an address."""
    backwards = _LOCAL_BACKWARDS.match(before[::-1])
    local = before[len(before) - backwards.end() :] if backwards else ""
    parameter = _PARAMETER.match(local)
    return local[parameter.end() :] if parameter else local


def _domain_end(text: str) -> int:
    """Length of the name of a host at the beginning; 0 if it is none."""
    text = text.rstrip(".-_")
    labels = text.split(".")
    if len(labels) < 2 or not all(map(_LABEL.fullmatch, labels)):
        return 0
    top = labels[-1].casefold()
    if not _TOP_LEVEL.fullmatch(top):
        return 0
    if f".{top}" in _PRIVATE_TOP_LEVELS:
        return len(text) if all(map(_HOST.fullmatch, labels)) else 0
    if top not in _FILE_ENDS or (top in _COUNTRIES_TOO and all(map(_HOST.fullmatch, labels))):
        return len(text)
    before = labels[-2].casefold()  # `ann@example.org.pdf`, a file that is named by an address
    is_host = before in _COMMON_TOP_LEVELS or (len(before) == 2 and before.isalpha() and before not in _FILE_ENDS)
    return len(text) - len(top) - 1 if len(labels) > 2 and is_host and all(map(_HOST.fullmatch, labels[:-1])) else 0


def ips_in(text: str) -> Iterator[re.Match[str]]:
    """What looks like an address of the Internet."""
    for form, within, most, belongs in (
        (_IPV4, _WITHIN_IPV4, _MAX_IPV4_BEFORE, str.isdecimal),
        (_IPV6, _WITHIN_IPV6, _MAX_IPV6_BEFORE, _is_of_ipv6),
    ):
        searched = -1
        for mark in within.finditer(text):
            start, least = mark.start(), max(0, mark.start() - most)
            while start > least and belongs(text[start - 1]):
                start -= 1
            if start > searched and (found := form.match(text, start)):
                yield found
            searched = max(searched, start)


def _is_of_ipv6(character: str) -> bool:
    return character in _OF_IPV6


def ip_confidence(text: str, says: Evidence) -> float:
    """Confidence that what looks like an address of the Internet is one of somebody's."""
    try:
        address = ip_address(text)
    except ValueError:
        return 0.0
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return 0.2
    return _ip4(address, says) if isinstance(address, IPv4Address) else _ip6(address, text)


def _ip4(address: IPv4Address, says: Evidence) -> float:
    if says is Kind.IP:
        return 0.97
    if says is not None and isinstance(says, Against):
        return 0.3
    # A version has small numbers: 1.2.3.4 may be either.
    return 0.5 if all(part < 30 for part in address.packed) and address.packed[0] != 10 else 0.85


def _ip6(address: IPv6Address, text: str) -> float:
    groups = [group for group in text.split(":") if group]
    return 0.95 if len(groups) > 2 or (groups and groups[0][0] in "23fF" and len(groups[0]) == 4) else 0.3


def streets_in(text: str) -> Iterator[tuple[int, int, float]]:
    """Start, end and confidence of each street with its number."""
    for word in _STREET_WORDS.finditer(text):
        start, end = word.span()
        if text[end : end + 1].isalpha():
            continue
        before = text[max(0, start - _BEFORE_CHARACTERS) : start]
        after = text[end : end + _AFTER_CHARACTERS]
        form = _FORMS[word[0]]
        if form is _Form.IN_COMPOUNDS:
            if (number := _AFTER.match(after)) and text[first := _word_start(text, start)].isupper():
                yield first, end + number.end(), _STREET_CONFIDENCE
        elif before[-1:].isalnum():
            continue
        elif form is _Form.BEHIND_NAME:
            if found := _NUMBER_AND_NAME.search(before):
                yield start - len(found[0]), end, _STREET_CONFIDENCE
        elif form is _Form.BEFORE_NAME:
            if named := _NAMED_AFTER.match(after):
                yield start, end + named.end(), _STREET_CONFIDENCE
        elif (number := _NUMBER_BEFORE.search(before)) and (named := _NAMED.match(after)):
            yield start - len(number[0]), end + named.end(), _STREET_CONFIDENCE


def _word_start(text: str, end: int) -> int:
    """Where the word begins that ends here, or the one before it if a space or hyphen is between them."""
    start = end
    least = max(0, end - _BEFORE_CHARACTERS)
    while start > least and (text[start - 1].isalpha() or (text[start - 1] in " -" and start > end - 1)):
        start -= 1
    return start
