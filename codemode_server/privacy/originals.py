"""Finds known originals in texts, as they were written."""

from __future__ import annotations

_MIN_CHARACTERS = 4
"""Shorter ones stand in many words."""


class Originals:
    """May be used in several threads at once."""

    def __init__(self) -> None:
        self._by_token: dict[str, str] = {}

    def add(self, original: str, token: str) -> None:
        if len(original) >= _MIN_CHARACTERS:
            self._by_token[token] = original

    def discard(self, token: str) -> None:
        self._by_token.pop(token, None)

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and token of each original, in order, without overlaps."""
        found: list[tuple[int, int, str]] = []
        for token, original in tuple(self._by_token.items()):
            at = text.find(original)
            while at >= 0:
                found.append((at, at + len(original), token))
                at = text.find(original, at + len(original))
        merged: list[tuple[int, int, str]] = []
        for start, end, token in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((start, end, token))
        return merged
