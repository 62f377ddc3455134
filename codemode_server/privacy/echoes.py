"""Finds the values that a call has sent in its answer, where they differ in case and separators at the most. Pure.

Nothing else is looked for, so that no other value can hide one of these; time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from codemode_server.known_values import Span

_WORD = re.compile(r"[^\W_]+")
_START_CHARACTERS = 4
_OPENING = "+("


class Echoes:
    """Some values with their tokens; a `KnownValues`."""

    def __init__(self, sent: Mapping[str, str]) -> None:
        """`sent`: token → value. What has fewer than four letters and digits is not looked for."""
        self._tokens: dict[str, tuple[str, str]] = {}
        for token, value in sent.items():
            letters = "".join(_WORD.findall(_lower(value)))
            if len(letters) >= _START_CHARACTERS:
                self._tokens.setdefault(letters, (token, value))
        self._starts = {letters[:_START_CHARACTERS] for letters in self._tokens}
        self._lengths = sorted({len(letters) for letters in self._tokens}, reverse=True)

    def spans(self, text: str) -> list[Span]:
        """Start, end and token of each of the values in a text, between words, in order; the longest first."""
        words = [*_WORD.finditer(_lower(text))]
        letters = "".join(word[0] for word in words)
        ends, at = dict[int, int](), 0
        for word in words:
            at += word.end() - word.start()
            ends[at] = word.end()
        found, at, done = list[Span](), 0, 0
        for word in words:
            begin, at = at, at + word.end() - word.start()
            if begin < done or letters[begin : begin + _START_CHARACTERS] not in self._starts:
                continue
            for length in self._lengths:
                sent = self._tokens.get(letters[begin : begin + length])
                if sent is not None and begin + length in ends:
                    start, done = word.start(), begin + length
                    is_opened = sent[1][0] in _OPENING and text[start - 1 : start] == sent[1][0]
                    found.append((start - is_opened, ends[done], sent[0]))
                    break
        return found


def _lower(text: str) -> str:
    """In small letters, at the same places."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
