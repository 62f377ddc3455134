"""Decides which texts of a value are free text, cuts them into pieces for a recognizer of names, and reads its answers.

Names in structured data have the evidence of their fields. So a single word is no free text, and a text that is nothing
but what was recognized counts only if it begins with a given name: `Desk Lamp` does not, `Ann Lee` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from codemode_server.privacy.findings import Kind
from codemode_server.privacy.given_names import is_person
from codemode_server.privacy.walk import SearchedText

MAX_PIECE_CHARACTERS = 2_000
"""The text that a recognizer reads at once. It needs memory and time for each, and can be stopped only between two."""
MAX_CHARACTERS = 1_000_000
"""Maximum of free text in one value; one with more is withheld."""
_TWO_WORDS = re.compile(r"\S\s+\S")
_ENDS = (re.compile(r"\n"), re.compile(r"[.!?…]\s"), re.compile(r"\s"))
"""Where a piece may end, the best places first."""
_NAME = re.compile(r"[^\W\d_](?:[^\W\d_]|['’.\u00b7-](?=[^\W\d_])|\.?\s{1,2}(?=[^\W\d_]))*")
"""Words of letters: what a recognizer takes for a part of a name beside them is none."""
_WORD = re.compile(r"\S+")
_POSSESSIVE = re.compile(r"['’]s\Z")
_MIN_CHARACTERS = 2
Span = tuple[int, int, float]
"""Start, end and confidence of what a recognizer takes for a name of a person."""


class Piece(NamedTuple):
    """A part of free text that is read at once."""

    start: int
    """Where it begins in the searched text."""
    text: str
    is_whole: bool
    """True if it is a whole text of the value, its white space aside."""


def is_free(text: str) -> bool:
    """True if names can stand in it that no field tells of."""
    return _TWO_WORDS.search(text) is not None


def free_pieces(searched: SearchedText) -> list[Piece] | None:
    """The free text of a value; None if there is too much of it."""
    pieces: list[Piece] = []
    length = 0
    for part in searched.parts:
        if part.is_key or part.is_number:
            continue
        text = searched.text[part.start : part.end]
        if not is_free(text):
            continue
        if (length := length + len(text)) > MAX_CHARACTERS:
            return None
        pieces += _pieces(text, part.start)
    return pieces


def _pieces(text: str, start: int) -> Iterator[Piece]:
    """Long text in parts that end, if possible, with a line, a sentence or a word in their second half."""
    at = 0
    while len(text) - at > MAX_PIECE_CHARACTERS:
        half, most = at + MAX_PIECE_CHARACTERS // 2, at + MAX_PIECE_CHARACTERS
        ends = ([found.end() for found in end.finditer(text, half, most)] for end in _ENDS)
        end = next((places[-1] for places in ends if places), most)
        yield Piece(start + at, text[at:end], False)
        at = end
    if at < len(text):
        yield Piece(start + at, text[at:], not at)


def names_in(piece: Piece, spans: Iterable[Span]) -> Iterator[tuple[int, int, Kind, float]]:
    """The names among the spans that a recognizer has found in a piece; places are those of the searched text."""
    whole = piece.text.strip() if piece.is_whole else None
    for start, end, confidence in spans:
        for name in _NAME.finditer(piece.text, start, end):
            first, last = _whole_words(piece.text, *name.span())
            if possessive := _POSSESSIVE.search(piece.text, first, last):
                last = possessive.start()
            value = piece.text[first:last]
            if last - first >= _MIN_CHARACTERS and (value != whole or is_person(value)):
                yield piece.start + first, piece.start + last, Kind.NAME, confidence


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Without words at the ends that are parts of an identifier, an address or a token: `NAME` of `<NAME_1>`."""
    words = [*_WORD.finditer(text, start, end)]
    if words and start and _is_joined(text[start - 1]):
        del words[0]
    if words and end < len(text) and _is_joined(text[end]):
        del words[-1]
    return (words[0].start(), words[-1].end()) if words else (start, start)


def _is_joined(neighbour: str) -> bool:
    return neighbour.isalnum() or neighbour in ("_", "@")
