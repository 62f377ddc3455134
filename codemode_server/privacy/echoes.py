"""Puts tokens in place of the values that a call has sent in its answer: the answer of a tool has often what it was
called with. Pure.

They may differ in case and separators. Nothing else is looked for, so that no other value can hide one of these, and
each text is searched by itself: of a value that an answer has in several texts, no text stands for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from codemode_server.known_values import Span
from codemode_server.privacy.known_in_values import with_tokens

_WORD = re.compile(r"[^\W_]+")
_START_CHARACTERS = 4
_OPENING = "+("


def tokenized_echo(value: Any, sent: Mapping[str, str]) -> Any:
    """The answer to a call that has sent these values, by token; a number is replaced if a whole value is one."""
    spans = Echoes(sent).spans
    return with_tokens(value, spans, spans, with_numbers=True)


class Echoes:
    """Some values with their tokens."""

    def __init__(self, sent: Mapping[str, str]) -> None:
        """`sent`: token → value. What has fewer than four letters and digits is not looked for."""
        self._tokens: dict[str, tuple[str, str]] = {}
        for token, value in sent.items():
            letters = "".join(_WORD.findall(_lower(value)))
            if len(letters) >= _START_CHARACTERS:
                self._tokens.setdefault(letters, (token, value))
        self._lengths: dict[str, list[int]] = {}
        """Of the values that begin with the same letters, the longest first."""
        for length, start in sorted({(len(it), it[:_START_CHARACTERS]) for it in self._tokens}, reverse=True):
            self._lengths.setdefault(start, []).append(length)

    def spans(self, text: str) -> list[Span]:
        """Start, end and token of each of the values in a text, between words, in order; the longest first."""
        if len(text) < _START_CHARACTERS:
            return []
        words = [*_WORD.finditer(_lower(text))]
        letters = "".join(word[0] for word in words)
        ends, at = dict[int, int](), 0
        for word in words:
            at += word.end() - word.start()
            ends[at] = word.end()
        found, at, done = list[Span](), 0, 0
        for word in words:
            begin, at = at, at + word.end() - word.start()
            if begin < done:
                continue
            for length in self._lengths.get(letters[begin : begin + _START_CHARACTERS], ()):
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
