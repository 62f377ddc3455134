"""Reads the escaped places of a searched text as what they stand for, and maps what is found there to the text.

Undone are escapes of URLs, HTML, JSON and programming languages, quoted-printable, invisible characters and the wide @.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codemode_server.privacy.escape_marks import INVISIBLE, NO_BREAK_SPACE
from codemode_server.privacy.escapes import Codes, Flags, Places, undone
from codemode_server.privacy.findings import Kind
from codemode_server.privacy.parts import Part, SearchedText

_MAX_WHOLE_CHARACTERS = 300
"""A shorter part is read as a whole, since its field may tell what it is."""
_SEPARATOR = "\x00"
_AT, _EQUALS, _NEW_LINE, _RETURN, _SPACE, _NO_BREAK_SPACE = map(ord, f"@=\n\r {NO_BREAK_SPACE}")
_INVISIBLE = np.array([ord(one) for one in INVISIBLE], np.uint32)
_FIRST_WIDE, _LAST_WIDE, _BEFORE_WIDE = 0xFF01, 0xFF5E, 0xFEE0
"""Wide forms of ASCII, and how far each is from it."""
_SMALL_AT = 0xFE6B
_IS_WORD = np.array([code > 0x7F or chr(code).isalnum() or code == ord("_") for code in range(0x81)])
_QUOTED = re.compile(r"=[0-9A-F]{2}")
_MAX_ASCII = 0x7F
_SURE_AFTER_BACKSLASH = "uUx"
_MAX_RIVALS = 8
Candidate = tuple[int, int, str, float]


class PlainCandidate(NamedTuple):
    """What was found in the plain reading, with its place in the text."""

    candidate: Candidate
    value: str
    has_escape: bool
    """Whether an escape is in it, or directly beside it: what has none is in the text as it is."""
    is_sure: bool
    """Whether what stands before it is surely an escape: `=20` and `\\n` may be something else."""


@dataclass(frozen=True)
class PlainReading:
    """The parts of a text beside its escapes, with the escapes undone."""

    searched: SearchedText
    original: str
    _starts: Places
    """Where in the original text each character begins."""
    _ends: Places
    _changes: Places
    """How many of the characters before each one stand for something else, or follow something that was left out."""

    def located(self, candidates: list[Candidate]) -> Iterator[PlainCandidate]:
        """What was found in the reading, with its place in the text."""
        if not candidates:
            return
        starts, ends = (np.array([one[at] for one in candidates]) for at in range(2))
        before = np.maximum(starts - 1, 0)
        follows_escape = self._changes[starts] > self._changes[before]
        has_escape = self._changes[np.minimum(ends + 1, len(self._starts))] > self._changes[before]
        columns = (self._starts[starts], self._ends[ends - 1], self._starts[before], follows_escape, has_escape)
        for (start, end, kind, confidence), (first, last, escape, follows, has) in zip(
            candidates, np.column_stack(columns).tolist(), strict=True
        ):
            is_sure = not follows or self._is_surely_escape(escape)
            yield PlainCandidate((first, last, kind, confidence), self.searched.text[start:end], bool(has), is_sure)

    def _is_surely_escape(self, at: int) -> bool:
        mark = self.original[at]
        return mark != "=" and (mark != "\\" or self.original[at + 1 : at + 2] in _SURE_AFTER_BACKSLASH)


def plain_reading(searched: SearchedText, windows: list[tuple[int, int]]) -> PlainReading:
    """What these parts of the text say with their escapes undone."""
    pieces = _pieces(searched, windows)
    joined = _SEPARATOR.join(searched.text[start:end] for start, end, _ in pieces)
    sizes = np.array([end - start + 1 for start, end, _ in pieces])
    heads = np.cumsum(sizes) - sizes
    origins = np.arange(sizes.sum()) + np.repeat(np.array([start for start, _, _ in pieces]) - heads, sizes)
    plain = _plain(joined)
    begins = np.searchsorted(plain.starts, heads)
    ends = np.append(begins[1:] - 1, len(plain.starts))
    parts = [
        part._replace(start=begin, end=end)
        for (_, _, part), begin, end in zip(pieces, begins.tolist(), ends.tolist(), strict=True)
    ]
    telling = [part for part in parts if part.tells_alone]
    text = plain.codes.tobytes().decode("utf-32-le", "surrogatepass")
    changes = np.append(0, np.cumsum(plain.are_changed))
    read = SearchedText(text, begins.tolist(), parts, telling, fields=searched.fields)
    return PlainReading(read, searched.text, origins[plain.starts], origins[plain.ends - 1] + 1, changes)


def _pieces(searched: SearchedText, windows: list[tuple[int, int]]) -> list[tuple[int, int, Part]]:
    """The windows within each part; short parts as a whole."""
    pieces: list[tuple[int, int, Part]] = []
    done = 0
    for start, end in windows:
        for number in range(max(done, bisect_right(searched.starts, start) - 1), bisect_left(searched.starts, end)):
            part = searched.parts[number]
            if part.end - part.start <= _MAX_WHOLE_CHARACTERS:
                pieces.append((part.start, part.end, part))
                done = number + 1
            elif (first := max(start, part.start)) < (last := min(end, part.end)):
                pieces.append((first, last, part))
    return pieces


class _Plain(NamedTuple):
    """Characters, where in the text each begins and ends, and whether it stands for something else."""

    codes: Codes
    starts: Places
    ends: Places
    are_changed: Flags

    def without(self, dropped: Flags) -> _Plain:
        if not dropped.any():
            return self
        stays = ~dropped
        return _Plain(self.codes[stays], self.starts[stays], self.ends[stays], self.are_changed[stays])


def _plain(text: str) -> _Plain:
    original = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    places = np.arange(len(original))
    read = _Plain(original, places, places + 1, places < 0)
    if "=\n" in text or "=\r\n" in text:
        read = read.without(_soft_breaks(original))
    if rounds := undone(read.codes, read.starts, read.ends, is_mail=_QUOTED.search(text) is not None):
        codes, starts, ends, _ = rounds[-1]
        read = _Plain(codes, starts, ends, starts < 0)
    if read.codes.max(initial=0) > _MAX_ASCII:
        read = read._replace(codes=_narrow(read))
        read = read.without(np.isin(read.codes, _INVISIBLE))
        read = read.without(_spaces_beside_at(read.codes))
    are_changed = (read.ends - read.starts > 1) | (read.codes != original[read.starts])
    are_changed |= read.starts != np.append(0, read.ends[:-1])
    return read._replace(are_changed=are_changed)


def _soft_breaks(codes: Codes) -> Flags:
    """The line breaks that quoted-printable hides, with the sign before them. `NAME=` alone in a line hides none."""
    padded = np.append(codes, np.zeros(2, np.uint32))
    is_sign = codes == _EQUALS
    is_short = is_sign & (padded[1:-1] == _NEW_LINE)
    is_long = is_sign & (padded[1:-1] == _RETURN) & (padded[2:] == _NEW_LINE)
    places = np.arange(len(codes))
    line_starts = np.maximum.accumulate(np.where(codes == _NEW_LINE, places + 1, 0))
    others = np.append(0, np.cumsum(~_IS_WORD[np.minimum(codes, 0x80)]))
    is_text = others[places] > others[np.minimum(line_starts, places)]
    is_text[1:] &= codes[:-1] != _EQUALS
    is_short, is_long = is_short & is_text, is_long & is_text
    dropped: Flags = is_short | is_long
    dropped[1:] |= is_short[:-1] | is_long[:-1]
    dropped[2:] |= is_long[:-2]
    return dropped


def _narrow(read: _Plain) -> Codes:
    """With the forms of ASCII in place of wide ones, and a space in place of an escape for another one."""
    codes = read.codes.copy()
    is_wide = (codes >= _FIRST_WIDE) & (codes <= _LAST_WIDE)
    codes[is_wide] -= np.uint32(_BEFORE_WIDE)
    codes[codes == _SMALL_AT] = _AT
    codes[(codes == _NO_BREAK_SPACE) & (read.ends - read.starts > 1)] = _SPACE
    return codes


def _spaces_beside_at(codes: Codes) -> Flags:
    """The spaces that must not break a line, directly beside an @."""
    is_space, is_at = codes == _NO_BREAK_SPACE, codes == _AT
    beside: Flags = np.zeros(len(codes), bool)
    beside[:-1] |= is_at[1:]
    beside[1:] |= is_at[:-1]
    beside &= is_space
    return beside


def together(
    candidates: list[Candidate], plain: Iterable[PlainCandidate], text: str
) -> tuple[dict[tuple[int, int, str], str], list[Candidate]]:
    """Adds to the candidates of a text those of its plain reading, and takes away what is a part of one of them, or
    begins in the middle of an escape. Answers the values of those that it added, and what it has taken away.

    What is in a credential stays as it is, and so does the password in a URL: an @ in it is escaped, and no address.
    """
    taken = _by_kind(candidates)
    added: list[PlainCandidate] = []
    without_escape: list[PlainCandidate] = []
    dropped: set[Candidate] = set()
    for one in plain:
        start, end, kind, _ = one.candidate
        if not one.has_escape:
            without_escape.append(one)
        elif kind == Kind.CREDENTIAL or not _is_in_credential(taken.get(Kind.CREDENTIAL, []), start, end, text):
            added.append(one)
            for rival in _rivals(taken.get(kind, []), start, end):
                if one.is_sure or (start <= rival[0] and rival[1] <= end):
                    dropped.add(rival)
    if dropped:
        candidates[:] = [one for one in candidates if one not in dropped]
        left = _by_kind(dropped)
        for one in without_escape:  # what was dropped may have been two values with an escape between them
            start, end, kind, _ = one.candidate
            if any(_rivals(left.get(kind, []), start, end)):
                added.append(one)
    candidates += [one.candidate for one in added]
    return {one.candidate[:3]: one.value for one in added}, list(dropped)


def _by_kind(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    made: dict[str, list[Candidate]] = {}
    for one in sorted(candidates):
        made.setdefault(one[2], []).append(one)
    return made


def _is_in_credential(credentials: list[Candidate], start: int, end: int, text: str) -> bool:
    return any(
        (one[0] <= start and end <= one[1]) or text[one[1] : one[1] + 1] == "@"
        for one in _rivals(credentials, start, end)
    )


def _rivals(ordered: list[Candidate], start: int, end: int) -> Iterator[Candidate]:
    """Those that overlap a place, of candidates of one kind in order; few of them overlap each other."""
    at = bisect_left(ordered, end, key=lambda one: one[0])
    for one in reversed(ordered[max(0, at - _MAX_RIVALS) : at]):
        if one[1] > start:
            yield one
