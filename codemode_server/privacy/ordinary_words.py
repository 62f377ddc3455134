"""Which words are ordinary: a part of an original that is one identifies nobody."""

from __future__ import annotations

from functools import lru_cache

from codemode_server.search.static import known_words

_MIN_LETTERS = 3
_WORDS_OF_ADDRESSES = (
    "strasse straat gasse allee platz boulevard chaussee chemin impasse calle avenida paseo carrera viale piazza vicolo"
    " travessa alameda estrada parkway crescent terrace googlemail hotmail outlook icloud protonmail fastmail"
    " invalid localhost"
)


_PREFIXES_OF_KEYS = (
    "glpat glptt ghp gho ghu ghs ghr pat npm pypi proj ant api xoxb xoxp akia asia aiza whsec dop live test"
)


def is_ordinary(word: bytes) -> bool:
    """Whether these folded letters are an ordinary word, or too few for any other."""
    return len(word) < _MIN_LETTERS or word in _ordinary_words()


@lru_cache(1)
def _ordinary_words() -> frozenset[bytes]:
    """The vocabulary of the search, and words of addresses."""
    words = (word.removeprefix("##") for word in known_words())
    chosen = (word for word in words if len(word) >= _MIN_LETTERS and word.isascii() and word.isalpha())
    return frozenset(word.encode() for word in (*chosen, *_WORDS_OF_ADDRESSES.split(), *_PREFIXES_OF_KEYS.split()))
