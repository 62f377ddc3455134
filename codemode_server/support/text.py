"""Prepares untrusted text for display: removes invisible characters and cuts it to a budget.

Invisible characters could reorder what a person reviews, or carry instructions that only a model reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])")
_UNSEEN_CLASS = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u08e2\u115f\u1160"
    r"\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Controls, and what Unicode calls ignorable; some of it (fillers, variation selectors) counts as printable."""
_UNSEEN = re.compile(f"[{_UNSEEN_CLASS}]+")
_SEEN_CLASS = rf"[^\x00-\x7f{_UNSEEN_CLASS}]"
_JOINED_OR_UNSEEN = re.compile(
    rf"((?<={_SEEN_CLASS})[\ufe0e\ufe0f]?[\u200c\u200d](?={_SEEN_CLASS})|(?<={_SEEN_CLASS})[\ufe0e\ufe0f]"
    r"|(?<=[0-9#*])\ufe0f(?=\u20e3))"
    rf"|[{_UNSEEN_CLASS}]+"
)
"""One joiner between two characters, or the variant of one, is seen: in emoji, and in scripts other than Latin. To look
for these takes ten times as long, so long texts lose them."""
_OVERDRAWING = re.compile(r"[\u0334-\u0338\u20d0-\u20f0]|(?<=[\u0300-\u036f]{3})[\u0300-\u036f]+")
"""Marks that cross out the letter before, and more than three marks on one letter."""
_WIDE = re.compile(r"[ \u2800]{8,}")
"""So many spaces, or empty patterns of Braille, could move what follows them out of sight."""
_JOINER = re.compile(r"[\u200c\u200d\ufe0e\ufe0f]")
_PLAIN = bytes(range(32, 127)) + b"\t\n"
_CHUNK_CHARACTERS = 2**16
"""Other threads have their turn after so much of a long text: a regular expression lets nothing else run."""
MAX_LINE_CHARACTERS = 4_000
_UNICODE_LINE_ENDS = ("\x85", "\u2028", "\u2029")
_LINE_ENDS = ("\r\n", "\r", *_UNICODE_LINE_ENDS)


def clean(text: str) -> str:
    """`text` as far as a reader sees it: no terminal escapes, no control characters but tab and newline, nothing of
    zero width but what joins or varies the character before it, no overrides of direction, no Unicode tags, no lone
    surrogates. Every line end becomes a newline."""
    return text if _is_plain(text) else _without_unseen(_with_line_ends(text, _LINE_ENDS))


def clean_in_json(text: str) -> str:
    """Like `clean`, for a text that is shown as a JSON string: carriage returns stay, since JSON shows them (`\\r`)."""
    return text if _is_plain(text) else _without_unseen(_with_line_ends(text, _UNICODE_LINE_ENDS))


def _without_unseen(text: str) -> str:
    if "\x1b" in text:
        text = _ESCAPE_SEQUENCE.sub("", text)
    if len(text) <= _CHUNK_CHARACTERS:
        return _JOINED_OR_UNSEEN.sub(r"\1", text) if _JOINER.search(text) else _UNSEEN.sub("", text)
    starts = range(0, len(text), _CHUNK_CHARACTERS)
    return "".join(_UNSEEN.sub("", text[start : start + _CHUNK_CHARACTERS]) for start in starts)


def _is_plain(text: str) -> bool:
    """True if `text` is visible ASCII, tabs and newlines included; much faster than cleaning it."""
    return text.isascii() and not text.encode().translate(None, _PLAIN)


def _with_line_ends(text: str, line_ends: tuple[str, ...]) -> str:
    for line_end in line_ends:
        text = text.replace(line_end, "\n")
    return text


def counted(number: int, noun: str) -> str:
    """`1 call` or `2,000 calls`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_lines(items: Sequence[T], most: int, more: str = "… {:,} more", line: Callable[[T], str] = str) -> list[str]:
    """The lines of the first items, and one that says how many more there are. `line` makes the line of an item."""
    return [*map(line, items[:most]), *([more.format(len(items) - most)] if len(items) > most else [])]


def clean_line(text: str, limit: int) -> str:
    """`text` cleaned, on one line, at most `limit` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def escaped(text: str) -> str:
    """`text` on one line, with nothing hidden: line ends, terminal escapes, controls of direction and all else that is
    not printable are written as escapes (`\\n`, `\\x1b`, `\\u202e`)."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    return "".join(it if _is_seen(it) else it.encode("unicode_escape").decode() for it in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() and not _UNSEEN.match(character)


def legible(text: str) -> str:
    """`text` escaped, and without what strikes it out, draws over other lines or moves it out of sight: for what a
    person decides by."""
    text = _OVERDRAWING.sub(lambda found: found[0].encode("unicode_escape").decode(), escaped(text))
    return _WIDE.sub(lambda found: f" [{len(found[0])} spaces] ", text)


def escaped_lines(text: str) -> str:
    """A page of our own lines, each of them escaped; what others wrote must be escaped before it becomes part of it."""
    return "\n".join(map(escaped, text.split("\n")))


def first_few(texts: Sequence[str], most: int) -> str:
    """`a, b and 7 more`."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def joined_within(texts: Sequence[str], limit: int) -> str:
    """`a, b, c`, or as many as fit into `limit` characters, at least one, `and 7 more`."""
    sizes = accumulate(len(text) + 2 for text in texts)
    return first_few(texts, max(1, sum(size <= limit for size in sizes)))


def one_line(text: str, longest: int = MAX_LINE_CHARACTERS) -> str:
    """`text` escaped and at most `longest` characters, for logs, terminals and reports that are read line by line.
    Secrets must be masked before, since it cuts."""
    line = escaped(text[: longest + 1])
    return line if len(line) <= longest else line[: longest - 1] + "…"
