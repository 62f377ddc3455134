"""Suggests known words for an unknown one: corrections of a misspelling, or two words written as one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from codemode_server.catalog.nearest_names import mistyped

_MIN_LETTERS = 4
_MAX_LETTERS = 40
_SUGGESTION_WEIGHT = 0.7
_MAX_SUGGESTIONS = 3
_MAX_CACHED = 2_000
_MAX_COMPARED = 2_000


class Spelling:
    """The known words by their first letter, which is rarely wrong."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known: dict[str, set[str]] = {}
        for word in known:
            self._known.setdefault(word[:1], set()).add(word)
        self.suggestions = lru_cache(_MAX_CACHED)(self._suggestions)
        """Suggested words with their weights; none for a word with anything but ASCII letters."""

    def _suggestions(self, word: str) -> dict[str, float]:
        if not _MIN_LETTERS <= len(word) <= _MAX_LETTERS or not (word.isascii() and word.isalpha()):
            return {}
        alike = self._known.get(word[:1], set())
        for place in range(_MIN_LETTERS, len(word) - 2):  # `createissue` → create, issue
            if word[:place] in alike and word[place:] in self._known.get(word[place], ()):
                return dict.fromkeys((word[:place], word[place:]), _SUGGESTION_WEIGHT)
        compared = sorted(known for known in alike if len(known) >= _MIN_LETTERS)
        return dict.fromkeys(mistyped(word, compared, _MAX_SUGGESTIONS, _MAX_COMPARED), _SUGGESTION_WEIGHT)
