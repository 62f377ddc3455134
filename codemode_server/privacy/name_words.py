"""Says where names count that are ordinary words. A server can call any word a name, and that would be taken from what
all other servers show the model.

Ordinary words count if one of them is a given name or a common surname. Others count only after a title, an initial or
a given name: in `Mr Rain`, and neither in `Rain is expected` nor as the status `OPEN`.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path

from codemode_server.privacy.given_names import folded, is_given_name, is_listed

FILE = Path(__file__).with_name("names_that_are_words.txt")
"""Given names and surnames that are also English words, picked by hand from the lists of Faker 40.63 (MIT license): the
thousand most frequent surnames of the USA, and
others."""
_PARTICLES = frozenset({"van", "von", "di", "da", "dos", "bin", "ibn"})
MAX_TITLE_CHARACTERS = 24
_WORD = re.compile(r"[^\W\d_]+")
_INITIAL = re.compile(r"(?<![^\W_])[A-Z](?:\.|['’](?=[^\W\d_]))")
"""As in `J. Rain` and `O'Rain`."""
_TITLE = re.compile(
    r"(?<![^\W_])(?:M(?:rs?|s|iss|x|me|lle|onsieur|adame|evrouw|eneer)|Dr|Prof|Sir|Herrn?|Frau|Se[ñn]or(?:a|ita)?|Sra?"
    r"|Signora?|Sig|Dott|Senhora?|[A-Z](?=\.))\.?\s$"
)
_BEFORE = re.compile(r"(?<![^\W_])([^\W\d_]{3,})\s$")
_WORDS_IN_SMALL_LETTERS = (
    "ants basel basil bill brit cord curt daisy drew dung else eral gene grant grit gust hazel hind iris jasmine lance"
    " laze lily magnolia mark mats misty ninja philippine poppy ruby rune solver sten ties troy vega"
)
_SMALL = frozenset(_WORDS_IN_SMALL_LETTERS.split())
"""Given names that are ordinary words in small letters."""
_SHORT_LETTERS = 2
_SHORT_LIST = (
    "ad ai am an as at be by ci cd cv db do eu en go hq hr he id if in io ip is it js me my no of ok on or os pc pm"
    " pr qa re so to tv ui uk un up us ux vs we"
)
_SHORT = frozenset(_SHORT_LIST.split())
"""Words of two letters that are nobody's name, unless they are a common surname."""


class Reach(Enum):
    """Where a known value counts."""

    ANYWHERE = auto()
    AS_WRITTEN = auto()
    """Where its letters and separators are the same."""
    WHOLE_VALUES = auto()
    """Where it is a line, a field, or a text in quotation marks."""
    BESIDE_TITLES = auto()
    """After a title, an initial or a given name."""


def reach_of(name: str) -> Reach:
    """Where a name of ordinary words counts."""
    words = [folded(word) for word in _WORD.findall(name)]
    if not _is_of_person(name, words):
        has_accent = len(words) == 1 and not name.isascii()  # it looks like an English word without it only
        return Reach.AS_WRITTEN if has_accent else Reach.BESIDE_TITLES
    is_given = bool(words) and is_listed(words[0]) and (len(words) > 1 or words[0] not in _SMALL)
    return Reach.WHOLE_VALUES if name.islower() and not is_given else Reach.ANYWHERE


def ends_with_title(before: str) -> bool:
    """Whether what stands before a word says that it is the name of a person."""
    if _TITLE.search(before):
        return True
    word = _BEFORE.search(before)
    return word is not None and is_given_name(word[1])


def _is_of_person(name: str, words: list[str]) -> bool:
    if name.replace(" ", "").isalpha() and any(len(it) == _SHORT_LETTERS and it not in _SHORT for it in words):
        return True
    has_particle = len(words) > 1 and not _PARTICLES.isdisjoint(words)
    return has_particle or _INITIAL.search(name) is not None or any(map(_may_be_name, words))


def _may_be_name(word: str) -> bool:
    return is_listed(word) or word in _word_names()


@lru_cache(1)
def _word_names() -> frozenset[str]:
    return frozenset(FILE.read_text(encoding="ascii").split())
