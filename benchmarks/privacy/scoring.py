"""Counts what was found, missed and found wrongly, per kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Found = tuple[str, str]
"""Kind and value."""
_OTHER = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Record:
    """One value as a tool may answer it, and what in it is personal: kinds and values."""

    value: Any
    truths: tuple[Found, ...]


@dataclass
class Score:
    """Counts of one kind."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def recall(self) -> float:
        return self.right / max(1, self.right + self.missed)

    @property
    def precision(self) -> float:
        return self.right / max(1, self.right + self.wrong)


@dataclass
class Scores:
    """Counts of all kinds, and what was confused."""

    kinds: dict[str, Score] = field(default_factory=dict)
    confusions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What it was (a kind, or `nothing`), and what it was taken for (a kind, or `missed`)."""
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def of(self, kind: str) -> Score:
        return self.kinds.setdefault(kind, Score())

    def confused(self, was: str, taken_for: str, example: str) -> None:
        self.confusions[was, taken_for] += 1
        shown = self.examples.setdefault((was, taken_for), [])
        if len(shown) < 3 and example not in shown:
            shown.append(example)

    def add(self, record: Record, found: Iterable[Found]) -> None:
        """Compare with the labels. A finding is right if it has the kind and covers the value: two characters more or
        fewer, separators aside, are taken as the same."""
        left = [(kind, value, _plain(value)) for kind, value in record.truths]
        rest: list[Found] = []
        for kind, value in found:
            plain = _plain(value)
            match = next((truth for truth in left if truth[0] == kind and _same(truth[2], plain)), None)
            if match:
                left.remove(match)
                self.of(kind).right += 1
            else:
                rest.append((kind, value))
        truths = [(kind, _plain(value)) for kind, value in record.truths]
        for kind, value in rest:
            plain = _plain(value)
            if any(was == kind and plain in truth for was, truth in truths):
                continue  # a further part of a value that is counted as found or missed
            self.of(kind).wrong += 1
            was = next((was for was, truth in truths if plain in truth or truth in plain), "nothing")
            self.confused(was, kind, value)
        for kind, value, _ in left:
            self.of(kind).missed += 1
            self.confused(kind, "missed", value)


def _plain(text: str) -> str:
    return _OTHER.sub("", text).casefold()


def _same(truth: str, found: str) -> bool:
    return (truth in found or found in truth) and abs(len(truth) - len(found)) <= 2
