"""Recognises what is written in text with a syntax of its own: e-mail, IP and postal addresses, and the name beside an
e-mail address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_address

from codemode_server.features.privacy.fields import Against, Evidence
from codemode_server.features.privacy.findings import Kind
from codemode_server.features.privacy.given_names import folded, is_given_name, is_person

_AT = re.compile(r"@(?<=[\w.!#$%'*+=^`{}~-]@)(?=(?:[^\W_][\w-]{0,62}\.){1,126}[^\W\d_][\w-])")
"""An @ with what may be an address on both sides. All others cost next to nothing."""
_LOCAL_BACKWARDS = re.compile(r"[\w.!#$%'*+=^`{}~-]{1,64}")
_PARAMETER = re.compile(r"[\w-]{1,40}=(?=[^=])")
"""The name of a parameter before an address, as in `?email=ann@example.org`."""
_DOMAIN = re.compile(
    r"(?:[^\W_](?:[^\W_]|-){0,62}\.){1,126}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,40})(?![\w@])", re.IGNORECASE
)
_OPENING = "'`{=*%$#!.^"
"""Characters that an address may begin with by the letter of the standard, and in texts never does."""
_FILE_ENDS_LIST = (
    "png jpg jpeg gif svg webp ico css js mjs ts tsx jsx rb go java html htm json xml yml yaml toml txt csv pdf"
    " gz tgz tar exe dll lock log scss whl jar localhost invalid"
)
_FILE_ENDS = frozenset(_FILE_ENDS_LIST.split())
_VERSION = re.compile(r"(?:.*\.)?[0-9][^.]*\.(?:py|rs|md|sh|so|zip|local|internal)\Z", re.IGNORECASE)
"""A name of a file or a version: `icon@2x.py`."""
_NO_PERSONS_LIST = (
    "noreply donotreply no do notification notifications notify alert alerts support info hello contact team billing"
    " sales newsletter news mailer admin office service services help helpdesk marketing jobs careers press security"
    " accounts invoice invoices orders bot updates feedback reply room"
)
_NO_PERSONS = frozenset(_NO_PERSONS_LIST.split())
"""How addresses begin that no person has."""
_PRIVATE_DOMAINS = (".local", ".internal")
"""Domains within an organization: in URLs and paths of `scp`, a user of a machine stands before the @."""

_IPV4 = re.compile(r"\d(?<![\w.-]\d)\d{0,2}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w-]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:|::)[0-9A-Fa-f:]{1,40}(?:\d{1,3}(?:\.\d{1,3}){3})?(?![\w:])")

_SMALL = r"(?:(?:de|du|des|del|della|dei|da|do|das|dos|la|las|le|les|los|el|e|van|der|den|von) |[dl]['’])"
_CAPITAL = rf"(?:{_SMALL}{{0,3}}[^\W\d_a-zß-öø-ÿ][\w'’.-]{{0,30}})"
"""A capitalised word with the small ones before it."""
_NUMBER = r"[0-9]{1,5}(?: ?[a-zA-Z](?![^\W_]))?(?:[-/][0-9]{1,4})?"
_HOUSE = rf",? (?:n[.ºo°]{{1,2}} ?)?{_NUMBER}(?!\w)"
_WORDS = rf" {_CAPITAL}(?: {_CAPITAL}){{0,3}}"
_FORMS = {
    "behind": "Street St Avenue Ave Road Rd Lane Ln Drive Dr Boulevard Blvd Court Ct Terrace Way Close Crescent Square"
    " Parkway",
    "before": "Via Viale Piazza Corso Vicolo Strada Calle Avenida Plaza Paseo Carrera Ronda Rua Travessa Praça Alameda"
    " Largo Estrada C/ Av. Avda.",
    "number": "rue avenue boulevard chemin allée impasse quai cours chaussée",
    "compound": "straße strasse str. gasse allee platz weg ring damm ufer straat laan plein gracht kade Straße Strasse"
    " Str. Allee Platz Weg Ring Damm Ufer",
}
"""Where the word for a street stands: English `12 Mill Road`; Italian, Spanish, Portuguese `Via Roma 12`; French
`12 rue de la Paix`; German and Dutch `Lindenstraße 12`, `Berliner Platz 12`."""
_FORM_OF = {word: form for form, words in _FORMS.items() for word in words.split()}
_STREET_WORD = re.compile("|".join(map(re.escape, sorted(_FORM_OF, key=len, reverse=True))))
_NUMBER_AND_NAME = re.compile(rf"(?<![\w.-]){_NUMBER},?{_WORDS} \Z")
_NUMBER_BEFORE = re.compile(rf"(?<![\w.-]){_NUMBER}(?:,? (?:bis|ter|quater))?,? \Z")
_COMPOUND_BEFORE = re.compile(r"(?:[^\W\d_a-zß-öø-ÿ][^\W\d_]*[ -])?[^\W\d_]*\Z")
_AFTER = re.compile(_HOUSE)
_NAMED_AFTER = re.compile(_WORDS + _HOUSE)
_NAMED = re.compile(_WORDS)
_REACH = 80

_BRACKETS = ("<mailto:", "<", "(", "[")
_SHOWN = re.compile(
    rf"(?:\"([^\n\"\x00]{{2,80}})\"|'([^\n'\x00]{{2,80}})'|(?<![^\W_])({_CAPITAL},?(?: {_CAPITAL}){{0,4}}))"
    r"(?: \([^()\n]{0,40}\)| via [^\n<>]{1,40})?[ *_]{0,3}\Z"
)
_REMARK = re.compile(r" \([^()]{0,60}\)\Z")


def emails_in(text: str) -> Iterator[tuple[int, int, float]]:
    """Start, end and confidence of each address."""
    floor = 0
    for found in _AT.finditer(text):
        at = found.start()
        domain = _DOMAIN.match(text, at + 1, at + 255)
        local = _local_part(text[max(floor, at - 64) : at])
        if domain is None or not local or domain[0].rpartition(".")[2].casefold() in _FILE_ENDS:
            continue
        if _VERSION.match(domain[0]):
            continue
        start, end = at - len(local.lstrip(_OPENING)), domain.end()
        is_private = domain[0].casefold().endswith(_PRIVATE_DOMAINS)
        is_login = text[end : end + 1] == ":" and text[end + 1 : end + 2].strip() != ""
        is_login = is_login or text.startswith("://", max(0, start - 3))
        if start < at and not (is_login and (is_private or text[start:at] == "git")):
            yield start, end, 0.9 if is_private else 0.97
            floor = end


def _local_part(before: str) -> str:
    """The text directly before an @, as far as it may belong to an address."""
    backwards = _LOCAL_BACKWARDS.match(before[::-1])
    local = before[len(before) - backwards.end() :] if backwards else ""
    parameter = _PARAMETER.match(local)
    return local[parameter.end() :] if parameter else local


def name_before(text: str, at: int, end: int) -> Iterator[tuple[int, int, str, float]]:
    """The name before the e-mail address at this place, if the address stands in brackets: `Ann Lee <ann@example.org>`.
    It has to begin with a given name or to be like the address."""
    before = text[max(0, at - 120) : at]
    if (bracket := next(filter(before.endswith, _BRACKETS), "")) == "":
        return
    shown = _SHOWN.search(before.removesuffix(bracket).rstrip(" \t"))
    if shown is None:
        return
    group = next(number for number in (1, 2, 3) if shown[number])
    words, first = _REMARK.sub("", shown[group]), at - len(before) + shown.start(group)
    parts = words.split(" ")
    for number in range(max(1, len(parts) - 1)):  # a title or a word of the sentence may stand before the name
        rest = " ".join(parts[number:])
        if is_person(rest) or (len(parts) == 1 and is_given_name(rest)):
            yield first + len(words) - len(rest), first + len(words), Kind.NAME, 0.9
            return
    local, last = folded(text[at:end].partition("@")[0]), folded(parts[-1])
    if len(parts) > 1 and len(last) > 2 and last in local and local not in _NO_PERSONS:
        yield first, first + len(words), Kind.NAME, 0.7


def ips_in(text: str) -> Iterator[re.Match[str]]:
    """Text that looks like an address of the Internet."""
    if text.count(".") > 2:
        yield from _IPV4.finditer(text)
    if text.count(":") > 1:
        yield from _IPV6.finditer(text)


def ip_confidence(text: str, says: Evidence) -> float:
    """Confidence that text which looks like an address of the Internet is one of somebody's."""
    try:
        address = ip_address(text)
    except ValueError:
        return 0.0
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return 0.2
    if not isinstance(address, IPv4Address):
        groups = [group for group in text.split(":") if group]
        is_long = len(groups) > 2 or (bool(groups) and groups[0][0] in "23fF" and len(groups[0]) == 4)
        return 0.95 if is_long else 0.3
    if says is Kind.IP:
        return 0.97
    if isinstance(says, Against):
        return 0.3
    # A version has small numbers: 1.2.3.4 may be either.
    return 0.5 if all(part < 30 for part in address.packed) and address.packed[0] != 10 else 0.85


def streets_in(text: str) -> Iterator[tuple[int, int, float]]:
    """Start, end and confidence of each street with its number."""
    for word in _STREET_WORD.finditer(text):
        (start, end), form = word.span(), _FORM_OF[word[0]]
        before = text[max(0, start - _REACH) : start]
        if text[end : end + 1].isalpha() or (form != "compound" and before[-1:].isalnum()):
            continue
        if form == "compound":
            name = _COMPOUND_BEFORE.search(before)
            first = start - len(name[0]) if name else start
            if text[first].isupper() and (house := _AFTER.match(text, end)):
                yield first, house.end(), 0.85
        elif form == "behind":
            if number := _NUMBER_AND_NAME.search(before):
                yield start - len(number[0]), end, 0.85
        elif form == "before":
            if named := _NAMED_AFTER.match(text, end):
                yield start, named.end(), 0.85
        elif (number := _NUMBER_BEFORE.search(before)) and (named := _NAMED.match(text, end)):
            yield start - len(number[0]), named.end(), 0.85
