"""Finds known originals in texts, in any mixture of capital and small letters.

A name must stand alone where it is found, since short ones stand in many words (`Mark` in `Markdown`), and it must be
written as it was. Everything else is found within longer words too.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIN_CHARACTERS = 4
"""Shorter ones stand in many words."""


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
                if not original.is_name or not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
                    found.append((at, end, token))
                at = within.find(searched, end)
        merged: list[tuple[int, int, str]] = []
        for start, end, token in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((start, end, token))
        return merged


def _lowered(text: str) -> str:
    """`text` in small letters, of the same length: the only letter that becomes two is replaced before."""
    return text.replace("\u0130", "I").lower()
