"""Recognises the name beside an e-mail address: `Ann Lee <ann@example.org>`, and `CN=` of directories and calendars.

A person's name may stand there, or that of a team or a service. Given names, the address and ordinary words decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codemode_server.privacy.findings import Kind
from codemode_server.privacy.given_names import folded, is_given_name, is_person

_MAX_CHARACTERS = 160
_MAX_LINE_CHARACTERS = 300
_OPENING = ("<", "&lt;", "(", "[")
_LINK, _SCHEME = '<a href="', "mailto:"
_BEFORE_ADDRESS = "<([:;"
_MAX_TAGS = 3
_SMALL = r"(?:de|da|do|dos|del|della|di|la|van|von|der|den|zu|y|el|al|bin|ten|af)"
_WORD = r"(?:[dl]['’])?[^\W\d_a-zß-öø-ÿ](?:[^\W\d_]|['’.-](?=[^\W\d_]))*\.?"
_WORDS = re.compile(rf"(?<!\S){_WORD}(?: (?:{_SMALL} ){{0,3}}{_WORD}){{0,4}}\Z")
_LAST_FIRST = re.compile(rf"{_WORD}, {_WORD}(?: {_WORD}){{0,2}}\Z")
_ENDS = re.compile(r"[^\w '’.,-]+")
"""What no name without quotation marks has in it."""
_REMARK = re.compile(r"(?: \([^()]{0,60}\)| (?:via|on behalf of) [^\n]{0,60})\Z")
_COMMON_NAME = re.compile(
    r"(?<![\w-])[Cc][Nn]=(?:\"(?P<quoted>[^\n\r\"\x00]{2,80})\"|(?P<plain>[^\n\r\";:,=\\\x00]{2,80}))"
)
_MAIL = re.compile(r"mailto:(?P<address>[^\s\";:,\x00]{3,200})", re.IGNORECASE)
_NO_PERSONS_LIST = (
    "noreply donotreply no do notification notifications notify alert alerts support info hello contact team billing"
    " sales newsletter news mailer admin office service services help helpdesk marketing jobs careers press security"
    " accounts invoice invoices orders bot updates feedback reply room"
)
_NO_PERSONS = frozenset(_NO_PERSONS_LIST.split())
"""How addresses begin that no person has."""
_MIN_LETTERS = 3
_SURE, _LIKELY = 0.9, 0.7
Name = tuple[int, int, Kind, float]
"""Start, end, kind and confidence."""


def name_before(text: str, at: int, end: int) -> Name | None:
    """The name before the e-mail address at this place, if the address stands in brackets."""
    if at < _MIN_LETTERS or text[at - 1] not in _BEFORE_ADDRESS:
        return None
    first = max(0, at - _MAX_CHARACTERS)
    first = max(first, text.rfind("\n", first, at) + 1)
    before, opening = _before_bracket(text[first:at])
    if not opening:
        return None
    if before[-1:] in ("'", '"'):
        start = before.rfind(before[-1], 0, -1) + 1
        before = before[:-1]
    else:
        start = max((it.end() for it in _ENDS.finditer(_REMARK.sub("", before))), default=0)
    words = _words_at_end(before[start:])
    if words is None:
        return None
    start += words[0]
    is_whole = not before[:start].rstrip(" \t\"'*_")[-1:].isalnum()
    found = _name_in(words[1], text[at:end], is_whole and opening in ("<", "&lt;"))
    if found is None:
        return None
    skipped, confidence = found
    return first + start + skipped, first + start + len(words[1]), Kind.NAME, confidence


def _before_bracket(before: str) -> tuple[str, str]:
    """What stands before the bracket, without tags of HTML, and the bracket; empty if an address has none there."""
    before = before.removesuffix(_SCHEME).removesuffix(_LINK)
    opening = next(filter(before.endswith, _OPENING), "")
    before = before.removesuffix(opening).rstrip(" *_")
    for _ in range(_MAX_TAGS):
        if before.endswith(">") and (tag := before.rfind("<")) >= 0:
            before = before[:tag].rstrip(" *_")
    return before, opening


def common_names_in(text: str) -> Iterator[Name]:
    """The persons that a property of a calendar or a distinguished name calls by their common names."""
    if "CN=" not in text and "cn=" not in text:
        return
    for found in _COMMON_NAME.finditer(text):
        start, end = found.span("quoted" if found["quoted"] else "plain")
        shown = text[start:end].rstrip()
        mail = _MAIL.search(text, end, min(_line_end(text, end), end + _MAX_LINE_CHARACTERS))
        words = _words_at_end(shown)
        if words and not words[0] and (name := _name_in(words[1], mail["address"] if mail else "", is_whole=True)):
            yield start + name[0], start + len(words[1]), Kind.NAME, name[1]


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at, at + _MAX_LINE_CHARACTERS)
    return end if end >= 0 else at + _MAX_LINE_CHARACTERS


def _words_at_end(shown: str) -> tuple[int, str] | None:
    """Where the words with capital letters begin that end here, and these words: `Lee, Ann` or `Ann Lee`."""
    shown = _REMARK.sub("", shown).rstrip(" *_'\"")
    start = len(shown) - len(shown.lstrip(" *_'\"."))
    if is_person(shown[start:]) and _LAST_FIRST.match(shown, start):
        return start, shown[start:]
    words = _WORDS.search(shown, start)
    return (words.start(), words[0]) if words else None


def _name_in(words: str, address: str, is_whole: bool) -> tuple[int, float] | None:
    """Where in these words the name of a person begins, and how sure it is one. What is not the whole text before the
    address has to have a given name."""
    if "," in words:
        return 0, _SURE
    parts = words.split(" ")
    for first in range(len(parts) - 1):
        if is_person(" ".join(parts[first:])):
            while first and not _is_title(parts[first - 1]):
                first -= 1
            return sum(len(part) + 1 for part in parts[:first]), _SURE
    if not is_whole:
        return None
    if len(parts) == 1:
        return (0, _LIKELY) if address and is_given_name(words) else None
    return (0, _LIKELY) if address and _is_like_address(parts, address) else None


def _is_title(word: str) -> bool:
    """Whether a word before a name is none of it: `Dr.`, `Contact`."""
    return word.endswith(".") or _is_ordinary(folded(word))


def _is_like_address(parts: list[str], address: str) -> bool:
    """Whether words without a given name are those of a person with this address, and not those of an organization."""
    local, _, domain = address.casefold().partition("@")
    if re.split(r"[^a-z]", local)[0] in _NO_PERSONS:
        return False
    words = [word for word in map(folded, parts) if len(word) >= _MIN_LETTERS]
    if not words or any(word in folded(domain) for word in words):
        return False
    unusual = [word for word in words if not _is_ordinary(word)]
    return len(unusual) == len(parts) or (bool(unusual) and any(word in folded(local) for word in words))


def _is_ordinary(word: str) -> bool:
    from codemode_server.privacy.ordinary_words import is_ordinary  # NumPy takes a tenth of a second

    return is_ordinary(word.encode())
