"""Suggests known words for an unknown one: corrections of a misspelling, or two words written as one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MIN_LETTERS = 4
_MAX_LETTERS = 40
_MIN_LETTERS_CHANGED = 5
"""Minimum length of a word that may differ from the known word by a replaced letter."""
_SUGGESTION_WEIGHT = 0.7
_MAX_SUGGESTIONS = 3
_MAX_CACHED = 2_000
_MAX_COMPARED = 20
_MIN_ALIKE = 0.4
"""Minimum share of common letter pairs for two words to be compared."""


class Spelling:
    """The known words, indexed by pairs of letters."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known
        self._there = frozenset(known)
        pairs: dict[str, list[int]] = {}
        lengths = np.zeros(len(known), np.int32)
        for number, word in enumerate(known):
            of_word = _pairs(word)
            lengths[number] = len(of_word)
            for pair in of_word:
                pairs.setdefault(pair, []).append(number)
        self._lengths = lengths
        self.suggestions = lru_cache(_MAX_CACHED)(self._suggestions)
        """Suggested words with their weights; none for a word with anything but ASCII letters."""
        self._holders: dict[str, NDArray[np.int32]] = {pair: np.array(held, np.int32) for pair, held in pairs.items()}

    def _suggestions(self, word: str) -> dict[str, float]:
        if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS or not (word.isascii() and word.isalpha()):
            return {}
        return dict.fromkeys(self._apart(word) or self._nearest(word), _SUGGESTION_WEIGHT)

    def _apart(self, word: str) -> tuple[str, ...]:
        """`createissue` → create, issue."""
        for place in range(_MIN_LETTERS, len(word) - 2):
            if word[:place] in self._there and word[place:] in self._there:
                return word[:place], word[place:]
        return ()

    def _nearest(self, word: str) -> tuple[str, ...]:
        asked = _pairs(word)
        common = np.zeros(len(self._known), np.int32)
        for pair in asked:
            holders = self._holders.get(pair)
            if holders is not None:
                common[holders] += 1
        alike = 2 * common / (self._lengths + len(asked))
        likely = np.flatnonzero(alike >= _MIN_ALIKE)
        likely = likely[np.argsort(-alike[likely], kind="stable")[:_MAX_COMPARED]]
        most = 1 if len(word) < 8 else 2
        compared = [self._known[int(number)] for number in likely]
        edits = {known: _edits(word, known, most) for known in compared}
        least = min(edits.values(), default=most + 1)
        return () if least > most else tuple(known for known, edit in edits.items() if edit == least)[:_MAX_SUGGESTIONS]


def is_misspelt(word: str, known: str) -> bool:
    """True if a word is probably a misspelling of a known one: `slak` of `slack`, but not `post` of `host`. The first
    letter is rarely wrong, and short words have many neighbours."""
    same_letters = sorted(word) == sorted(known)
    return same_letters or (word[0] == known[0] and (len(word) >= _MIN_LETTERS_CHANGED or len(known) > len(word)))


def _pairs(word: str) -> set[str]:
    framed = f"^{word}$"
    return {framed[place : place + 2] for place in range(len(framed) - 1)}


def _edits(one: str, other: str, most: int) -> int:
    """The optimal string alignment distance; `most` + 1 if it is greater than `most`."""
    if abs(len(one) - len(other)) > most or len(other) < _MIN_LETTERS - 1:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        now = [place]
        for column, against in enumerate(other, start=1):
            cost = min(row[column] + 1, now[-1] + 1, row[column - 1] + (letter != against))
            if before and column > 1 and letter == other[column - 2] and one[place - 2] == against:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
        if min(now) > most:
            return most + 1
        before, row = row, now
    return min(row[-1], most + 1)
