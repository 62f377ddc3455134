"""Finds known originals in texts, in any mixture of capital and small letters.

A name is found only as it was written, and one of a single word only where it stands alone, since short ones stand in
many words (`Mark` in `Markdown`). Everything else is found within longer words too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MIN_CHARACTERS = 4
"""Shorter ones stand in many words."""
_AFTER_ESCAPE = re.compile(r"\\(?:[bfnrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})$")
"""The end of a text before which a line break or another character is written as JSON or Python does."""
_LONGEST_ESCAPE = 6


@dataclass(frozen=True, slots=True)
class _Original:
    searched: str
    is_name: bool
    """Whether it has only letters and spaces."""


class Originals:
    """May be used in several threads at once."""

    def __init__(self) -> None:
        self._by_token: dict[str, _Original] = {}

    def add(self, original: str, token: str) -> None:
        if len(original) >= _MIN_CHARACTERS:
            is_name = original.replace(" ", "").isalpha()
            self._by_token[token] = _Original(original if is_name else _lowered(original), is_name)

    def discard(self, token: str) -> None:
        self._by_token.pop(token, None)

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and token of each original, in order, without overlaps."""
        found: list[tuple[int, int, str]] = []
        lowered = _lowered(text)
        for token, original in tuple(self._by_token.items()):
            searched, within = original.searched, text if original.is_name else lowered
            at = within.find(searched)
            while at >= 0:
                end = at + len(searched)
                if not original.is_name or " " in searched or _stands_alone(text, at, end):
                    found.append((at, end, token))
                at = within.find(searched, end)
        merged: list[tuple[int, int, str]] = []
        for start, end, token in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((start, end, token))
        return merged


def _stands_alone(text: str, start: int, end: int) -> bool:
    if text[end : end + 1].isalnum():
        return False
    before = text[max(0, start - _LONGEST_ESCAPE) : start]
    return not before[-1:].isalnum() or _AFTER_ESCAPE.search(before) is not None


def _lowered(text: str) -> str:
    """`text` in small letters, of the same length: the only letter that becomes two is replaced before."""
    return text.replace("\u0130", "I").lower()
