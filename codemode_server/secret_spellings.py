"""One secret → a pattern of the ways in which programs write it. Pure.

A character that some encoding changes is accepted in any of its spellings, each one by itself: as it is, behind
backslashes (JSON, also JSON within JSON, PHP's `\\/`, shells), as `\\u00E9` or `\\xe9` (JSON, Go, Python's `repr`, also
of its UTF-8 bytes), percent-encoded, or as a reference of HTML and XML. White space matches any white space, since
texts are wrapped and put on one line. Letters, digits, `_`, `-` and `.` are left alone by all of these encodings.
"""

from __future__ import annotations

import re
from itertools import groupby

_PLAIN_RUN = re.compile(r"[A-Za-z0-9_.-]+")
_SPACE_RUN = re.compile(r"\s+")
_MORE_SLASHES = r"\\{0,15}"
"""Further backslashes: each JSON within JSON doubles them."""
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_SPACE = (
    r"(?:\s|\\\\{0,15}(?:[nrt]|(?i:u00|x)(?:0[9aAdD]|20))|%(?:25)?(?:0[9aAdD]|20)|\+|&(?:amp;)?#(?:9|10|13|32|x[9aAdD]|x20);)"
    r"{1,16}"
)
_LONGEST_SPACE = 16 * 20
_LONGEST_CHARACTER = 80
_LONGEST_PIECE = 1_000
"""Characters of one pattern; a longer secret is searched for in pieces of this length, which are secrets as well."""
_SHORTEST_ANCHOR = 3


def pieces_of(secret: str) -> list[str]:
    """A very long secret in parts, so that no pattern is without bound."""
    count = -(-len(secret) // _LONGEST_PIECE)
    length = -(-len(secret) // count)
    return [secret[start : start + length] for start in range(0, len(secret), length)]


def anchor_of(secret: str) -> str:
    """The longest part that is the same in every spelling; empty where there is none that is worth a search."""
    longest = max(_PLAIN_RUN.findall(secret), key=len, default="")
    return longest if len(longest) >= _SHORTEST_ANCHOR else ""


def is_plain(secret: str) -> bool:
    """Whether there is but one spelling."""
    return _PLAIN_RUN.fullmatch(secret) is not None


def longest_spelling(secret: str) -> int:
    """No spelling has more characters."""
    plain = sum(map(len, _PLAIN_RUN.findall(secret)))
    spaces = len(_SPACE_RUN.findall(secret))
    return plain + (len(secret) - plain) * _LONGEST_CHARACTER + spaces * _LONGEST_SPACE


def pattern_of(secret: str) -> re.Pattern[str]:
    """Matches every spelling. It begins with a letter, or with alternatives that each begin with one: `re` is quick at
    finding those."""
    parts: list[str] = []
    for is_space, run in groupby(secret, str.isspace):
        parts += [_SPACE] if is_space else map(_spellings, run)
    return re.compile("".join(parts))


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
        written.append(f"x{code:02x}")
    if code >= 0x80:
        written.append(r"\\{1,16}".join(f"x{byte:02x}" for byte in data))
    escaped = f"(?i:{'|'.join(written)})"
    itself = re.escape(character)
    if character == "\\":
        slashes = rf"\\(?:{_MORE_SLASHES}{escaped}|{_MORE_SLASHES})"
    elif code < 0x80:
        slashes = rf"{itself}|\\{_MORE_SLASHES}+(?:{itself}|{escaped})"
    else:
        slashes = rf"{itself}|\\{_MORE_SLASHES}+{escaped}"
    named = [_ENTITIES[character]] if character in _ENTITIES else []
    entity = "|".join([*named, rf"#0{{0,4}}{code}", rf"#[xX]0{{0,4}}(?i:{code:x})"])
    return rf"(?:{slashes}|%{_percent_rest(data)}|&(?:amp;)?(?:{entity});)"


def _percent_rest(data: bytes) -> str:
    """The percent-encoded bytes, also encoded twice, without the first `%`."""
    return "%".join(f"(?:25)?(?i:{byte:02x})" for byte in data)
