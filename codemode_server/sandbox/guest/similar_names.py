"""Finds the known name closest to a misspelled one; shared by preflight, gateway and guest.

A wrong suggestion costs the model more than none, so similar letters are not enough: the words of one name must all
be in the other, as they are, abbreviated or with a typing mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_MAX_NAMES = 100
_MAX_WORDS = 5
_MAX_CHARACTERS = 100
"""All three bound the work: names may come from someone hostile."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_OTHER_MEANINGS = {"zone", "out"}
"""Endings that make another word: `time` is not short for `timezone`."""
_SYNONYMS = {"from": "source", "src": "source", "to": "target", "dest": "target", "destination": "target"}


def similar_name(name: str, known: Iterable[str], preferred: Iterable[str] = ()) -> str | None:
    """The one of `known` that `name` plainly stands for, or None; `preferred`, some of `known`, are tried first."""
    names = list(dict.fromkeys(known))[:_MAX_NAMES]
    first = [candidate for candidate in preferred if candidate in names][:_MAX_NAMES]
    words = _words(name)
    return (words and (_most_similar(words, first, is_wanted=True) or _most_similar(words, names))) or None


def _most_similar(words: tuple[str, ...], names: list[str], *, is_wanted: bool = False) -> str | None:
    """The nearest of the names with the same words; else the only one whose words include these, or are among them."""
    same: list[tuple[float, str]] = []
    wider: list[str] = []
    for name in names:
        others = _words(name)
        if not others:
            continue
        is_within = all(any(_is_same_word(word, other) for other in others) for word in words)
        is_around = all(any(_is_same_word(other, word) for word in words) for other in others)
        similarity = SequenceMatcher(None, "".join(words), "".join(others)).ratio() if is_within or is_around else 0
        if is_within and is_around:
            same.append((similarity, name))
        elif (is_within or is_around) and (is_wanted or similarity >= 0.5):
            wider.append(name)
    if same and (best := max(same))[0] < 1 and any(set(words) < set(_words(name)) for name in names):
        return None  # `timezone` is not short for `time` where there is `source_timezone`
    if same:
        wider = [name for similarity, name in same if similarity == best[0]]
    return wider[0] if len(wider) == 1 else None


def _is_same_word(word: str, other: str) -> bool:
    """True if one is the other, a shorter form of it (`repo` of `repository`), or a typing mistake for it."""
    if word == other:
        return True
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) < 3 or shorter[0] != longer[0]:
        return False
    if longer.startswith(shorter):
        return longer[len(shorter) :] not in _OTHER_MEANINGS
    least = 0.7 if shorter[:4] == longer[:4] else 0.8
    return 2 * len(shorter) / (len(shorter) + len(longer)) >= least and (
        SequenceMatcher(None, shorter, longer).ratio() >= least
    )


def _words(name: str) -> tuple[str, ...]:
    found = [word.casefold() for word in _WORD.findall(name[:_MAX_CHARACTERS])]
    return tuple(_SYNONYMS.get(word, word) for word in found[:_MAX_WORDS])
