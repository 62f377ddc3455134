"""Tells names of persons from names of things by the first word: 12,000 given names of Europe and the Americas.

`given_names.txt` has them in small letters and without accents: the first names of Faker 40.63 (MIT license), its
European and American locales, without words that also begin titles, and names of places and months.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).with_name("given_names.txt")
_MAX_CHARACTERS = 80
_UNCOMPOSED = str.maketrans(
    {"ß": "ss", "ł": "l", "Ł": "l", "ı": "i", "ø": "o", "Ø": "o", "đ": "d", "æ": "ae", "Æ": "ae"}
)
_WORD = r"[^\W\d_][^\W\d_]*(?:['’.-][^\W\d_]*)*\.?"
_PERSON = re.compile(rf"{_WORD}(?:,? {_WORD}){{1,4}}")
_SMALL_WORDS = "de da do dos das del della di la le los von van der den zu y e el al bin ibn ter ten af av"
_SMALL = frozenset(_SMALL_WORDS.split())


def is_person(text: str) -> bool:
    """True if a text is a given name and more words, each with a capital letter: `Ana María de Souza`, `Lee, Ann`."""
    if len(text) > _MAX_CHARACTERS or _PERSON.fullmatch(text) is None:
        return False
    words = text.replace(",", "").split(" ")
    if not all(word[0].isupper() or word in _SMALL for word in words):
        return False
    given = words[1] if "," in text else words[0]
    return any(folded(part) in _names() for part in given.split("-"))


def is_given_name(word: str) -> bool:
    """True if a single word with a capital letter is a given name."""
    return word[:1].isupper() and folded(word) in _names()


def folded(name: str) -> str:
    """A name in small letters, without accents and marks."""
    text = unicodedata.normalize("NFKD", name.translate(_UNCOMPOSED))
    return "".join(letter for letter in text if letter.isalpha()).casefold()


@lru_cache(1)
def _names() -> frozenset[str]:
    return frozenset(FILE.read_text(encoding="ascii").split())
