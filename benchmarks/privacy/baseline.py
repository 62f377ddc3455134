"""The baseline: the regular expressions that one finds first, without checksums and without fields."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PATTERNS = {
    "email": re.compile(r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b"),
    "card": re.compile(r"\b(?:\d[ -]?){13,16}\b"),
    "iban": re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b"),
    "national_id": re.compile(
        r"\b\d{3}-\d{2}-\d{4}\b|\b\d{3}\.\d{3}\.\d{3}-\d{2}\b|\b\d{8}[A-Z]\b|\b[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]\b"
    ),
    "ip": re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}\b"),
    "phone": re.compile(r"(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,4}\)[ .-]?)?\d{2,4}(?:[ .-]\d{2,4}){1,4}\b"),
    "credential": re.compile(r"\b(?:ghp_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16}|xox[bap]-[\w-]+|AIza[\w-]{35})\b"),
}


def baseline(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each match; one that overlaps an earlier kind's is left out."""
    taken: list[tuple[int, int]] = []
    for kind, pattern in _PATTERNS.items():
        for found in pattern.finditer(text):
            start, end = found.span()
            if all(end <= first or last <= start for first, last in taken):
                taken.append((start, end))
                yield kind, found[0]
