"""Makes a pattern that matches the spellings of a secret in common encodings.

Each character that some encoding changes matches in any of its spellings, independently of the others: as it is, behind
backslashes (JSON, also JSON within JSON, PHP's `\\/`, shells), as `\\u00E9`, `\\xe9` or `\\351` (JSON, Go, C,
Python's `repr`, also of its UTF-8 bytes), percent-encoded, or as a reference of HTML and XML. Quotes may be doubled
(CSV, SQL). White space matches any white space, since texts are wrapped and joined. None of these encodings changes
ASCII letters and digits. Other letters may be composed or decomposed, or be UTF-8 read as Latin-1.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import groupby

_PLAIN_RUN = re.compile(r"[A-Za-z0-9]+")
_SPACE_RUN = re.compile(r"\s+")
_MORE_SLASHES = r"\\{0,15}"
"""Further backslashes: JSON within JSON doubles them."""
_SPACE = (
    r"\s|\\\\{0,15}(?:[nrt]|(?i:u00|x)(?:0[9aAdD]|20)|0(?:11|12|15|40))|%(?:25)?(?:0[9aAdD]|20)|\+"
    r"|&(?:amp;)?(?:#(?:9|10|13|32|x[9aAdD]|x20)|nbsp);"
)
_QUOTES = {
    '"': ('"', r"\\\"", r"\\{3}\"", r"\\{7}\"", "%(?:25)?22", "&(?:amp;)?(?:quot|#34|#[xX]22);"),
    "'": ("'", r"\\'", r"\\{3}'", r"\\{7}'", "%(?:25)?27", "&(?:amp;)?(?:apos|#0?39|#[xX]27);"),
}
"""Spellings of a quote, of which a doubled quote has the same one twice."""
_MAX_SPACES = 16
_LONGEST_CHARACTER = 80
_MAX_PIECE_CHARACTERS = 1_000
"""Maximum characters of one pattern; a longer secret is split into pieces, each of which is masked."""
_SHORTEST_ANCHOR = 3
_LONGEST_HEAD = 8


def pieces_of(secret: str) -> set[str]:
    """The texts to search for: the secret and its other Unicode forms, each split if it is very long, so that patterns
    are bounded."""
    return {piece for form in _forms(secret) for piece in _parts(form)}


def _forms(secret: str) -> set[str]:
    if secret.isascii():
        return {secret}
    forms = {secret, unicodedata.normalize("NFC", secret), unicodedata.normalize("NFD", secret)}
    misread = {_as_windows_1252(form) for form in forms}
    return forms | misread | {form.encode("utf-8", "surrogatepass").decode("latin-1") for form in forms}


def _as_windows_1252(text: str) -> str:
    """UTF-8 decoded as Windows-1252, which the Web calls Latin-1."""
    data = text.encode("utf-8", "surrogatepass")
    return "".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in data)


def _parts(text: str) -> Iterator[str]:
    count = -(-len(text) // _MAX_PIECE_CHARACTERS)
    length = -(-len(text) // count)
    return (text[start : start + length] for start in range(0, len(text), length))


def anchor_of(secret: str) -> str:
    """The longest part that is the same in every spelling; empty if it is too short to be worth a search."""
    longest = max(_PLAIN_RUN.findall(secret), key=len, default="")
    return longest if len(longest) >= _SHORTEST_ANCHOR else ""


def head_of(secret: str) -> str:
    """The first characters: where the secret's pattern matches, that of its head does."""
    end = min(_LONGEST_HEAD, len(secret))
    while end and _kind(secret[end - 1]):  # spelled by the run, which may go on behind the head
        end -= 1
    return secret[:end] or secret


def is_plain(secret: str) -> bool:
    """Whether it has only one spelling."""
    return _PLAIN_RUN.fullmatch(secret) is not None


def longest_spelling(secret: str) -> int:
    """Upper bound for the characters of any spelling."""
    plain = sum(map(len, _PLAIN_RUN.findall(secret)))
    spaces = len(_SPACE_RUN.findall(secret))
    return plain + (len(secret) - plain) * _LONGEST_CHARACTER + spaces * _MAX_SPACES * _LONGEST_CHARACTER


def pattern_of(secret: str) -> re.Pattern[str]:
    """The pattern of every spelling. Each alternative begins with a literal character, which `re` finds quickly."""
    return re.compile("".join(_run_pattern(kind, "".join(run)) for kind, run in groupby(secret, _kind)))


def _kind(character: str) -> str:
    """Kind of a character: runs of white space or of one quote are spelled together, others one by one."""
    return " " if character.isspace() else character if character in _QUOTES else ""


def _run_pattern(kind: str, run: str) -> str:
    if kind == " ":
        special = (_spellings(character) for character in sorted(set(run)) if not character.isascii())
        return rf"(?:{'|'.join([_SPACE, *special])}){{1,{_MAX_SPACES}}}"
    spelled = "".join(map(_spellings, run))
    if not kind:
        return spelled
    doubled = "|".join(rf"(?:{quote}){{{2 * len(run)}}}" for quote in _QUOTES[kind])
    return rf"(?:{doubled}|{spelled})"


def _spellings(character: str) -> str:
    if _PLAIN_RUN.fullmatch(character):
        return re.escape(character)
    code, data = ord(character), character.encode("utf-8", "surrogatepass")
    written = [rf"u\{{0*{code:x}\}}", f"U{code:08x}"]
    if code < 0x10000:
        written.append(f"u{code:04x}")
    else:
        high, low = 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF)
        written.append(rf"u{high:04x}\\{{1,16}}u{low:04x}")
    if code < 0x100:
        written += [f"x{code:02x}", rf"0{{0,2}}{code:o}"]
    if code >= 0x80:
        written += [r"\\{1,16}".join(f"x{byte:02x}" for byte in data), r"\\{1,16}".join(f"{byte:o}" for byte in data)]
    escaped = f"(?i:{'|'.join(written)})"
    itself = re.escape(character)
    if character == "\\":
        slashes = rf"\\(?:{_MORE_SLASHES}{escaped}|{_MORE_SLASHES})"
    elif code < 0x80:
        slashes = rf"{itself}|\\{_MORE_SLASHES}+(?:{itself}|{escaped})"
    else:
        slashes = rf"{itself}|\\{_MORE_SLASHES}+{escaped}"
    entity = "|".join([*_entities().get(character, ()), rf"#0{{0,4}}{code}", rf"#[xX]0{{0,4}}(?i:{code:x})"])
    return rf"(?:{slashes}|%{_percent_rest(data)}|&(?:amp;)?(?:{entity});)"


def _percent_rest(data: bytes) -> str:
    """Pattern of the percent-encoded bytes, also encoded twice, without the first `%`."""
    return "%".join(f"(?:25)?(?i:{byte:02x})" for byte in data)


@cache
def _entities() -> dict[str, list[str]]:
    """The HTML names of each character."""
    from html.entities import html5

    names: dict[str, list[str]] = {}
    for name, text in html5.items():
        if name.endswith(";"):
            names.setdefault(text, []).append(name[:-1])
    return names
