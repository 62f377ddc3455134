"""A text → its terms: stems, and the words as written; stop words left out, and scripts without spaces in pairs."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from codemode_server.catalog.naming import words

_EXACT_WEIGHT = 0.75
"""Weight of a word as written, beside its stem."""
_JOINED_WEIGHT = 0.6
"""Weight of two adjacent words taken as one: a query for `key vault` looks for `keyvault`, too."""


def is_stop_word(word: str) -> bool:
    """Whether a lower-case word is in no index."""
    return word in _STOP_WORDS


def query_terms(query: str) -> dict[str, float]:
    """The terms of a query and how much each counts."""
    counts: dict[str, int] = {}
    text = _PLACEHOLDER.sub(" ", query)
    found = [word for word in _words(text) if word not in _STOP_WORDS]
    for word in found:
        for term in _word_terms(word):
            counts[term] = counts.get(term, 0) + 1
    weights = {
        term: (_EXACT_WEIGHT if term[0] == "=" else 1.0) * (1 + math.log(min(number, 3)))
        for term, number in counts.items()
    }
    for term in (*_joined(found), *joined_with_stop_words(text)):
        weights.setdefault(term, _JOINED_WEIGHT)
    return weights


def name_term(text: str) -> str:
    """One term for a whole name or query, so that a tool is found first by its exact name in any spelling."""
    return "^" + "_".join(stems(text))


def joined_terms(text: str) -> list[str]:
    """Each two adjacent words as one, stop words left out: `key_vault` is found by `keyvault`."""
    return _joined([word for word in _words(text) if word not in _STOP_WORDS])


def joined_with_stop_words(text: str) -> list[str]:
    """Each stop word and the word beside it as one: `on call` finds `list_oncalls`."""
    found = list(_words(text))
    return [stem(one + other) for one, other in pairwise(found) if (one in _STOP_WORDS) != (other in _STOP_WORDS)]


def _joined(found: list[str]) -> list[str]:
    return [stem(one + other) for one, other in pairwise(found)]


_PLACEHOLDER = re.compile(r"<[^<>]{1,60}>")
_VALUE = re.compile(
    r"""
    "[^"\n]{0,300}" | “[^”\n]{0,300}” | `[^`\n]{0,300}` | (?<!\w)'[^'\n]{1,300}'(?!\w) | ‘[^’\n]{1,300}’(?!\w)
    | (?<!\S)[^\s]*\d[^\s]*
    """,
    re.VERBOSE,
)
"""Text in quotes, and words with a digit: `Q3`, `2024-05-01`."""


def without_values(query: str) -> str:
    """The query without the values in it, which no tool's description contains; all of it if it has no other words."""
    rest = _VALUE.sub(" ", query)
    return rest if any(word not in _STOP_WORDS for word in _words(rest)) else query


def terms(text: str) -> list[str]:
    """The terms of a text: of each word its stem, and behind `=` the word as written."""
    found: list[str] = []
    for chunk in text.split():
        found += _chunk_terms(chunk[:100])
    return found


def stems(text: str) -> list[str]:
    """The stems of a text alone."""
    return [term for term in terms(text) if term[0] != "="]


@lru_cache(maxsize=50_000)
def _chunk_terms(chunk: str) -> tuple[str, ...]:
    return tuple(term for word in _chunk_words(chunk) if word not in _STOP_WORDS for term in _word_terms(word))


def _words(text: str) -> Iterator[str]:
    """Lower-case words, stop words too; an identifier in camelCase apart and as one word: `MySQL`, `GitHub`."""
    for chunk in text.split():
        yield from _chunk_words(chunk[:100])


@lru_cache(maxsize=50_000)
def _chunk_words(chunk: str) -> tuple[str, ...]:
    found: list[str] = []
    for run in _RUN.findall(chunk if chunk.isascii() else _folded(chunk)):
        parts = words(run)
        for word in parts:
            found += _bigrams(word.lower()) if not word.isascii() else (word.lower(),)
        if 1 < len(parts) <= 3 and run.isascii() and run.isalpha():
            found.append(run.lower())
    return tuple(found)


_RUN = re.compile(r"[^\W_]+")


@lru_cache(maxsize=50_000)
def _word_terms(word: str) -> tuple[str, str]:
    return stem(word), f"={word}"


def _folded(chunk: str) -> str:
    """Without accents, so that `créer` is one word and meets `creer`."""
    apart = unicodedata.normalize("NFKD", chunk)
    return unicodedata.normalize("NFC", "".join(letter for letter in apart if not "\u0300" <= letter <= "\u036f"))


def _bigrams(word: str) -> Iterable[str]:
    """A script without spaces in pairs of letters; any other word as it is."""
    if not _UNSPACED.search(word) or len(word) < 3:
        return (word,)
    return (word[start : start + 2] for start in range(len(word) - 1))


_UNSPACED = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]")


def stem(word: str) -> str:
    """The word without its commonest endings, so that `listing`, `listed` and `lists` meet `list`."""
    if len(word) <= 3 or not word.isascii() or word.isdigit():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


_ENDINGS = (
    ("ations", "ate"),
    ("ation", "ate"),
    ("ments", ""),
    ("ment", ""),
    ("ings", ""),
    ("ing", ""),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ies", "y"),
    ("ied", "y"),
    ("xes", "x"),
    ("ers", "er"),
    ("ed", ""),
    ("ly", ""),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("s", ""),
)

_STOPPED = """
    a about all also am an and any are as at be been but by can could did do does for from had has have how i if in into
    is it its let like me my need of on or our please so some that the their them then there these they this to us use
    used using want was we what when where which who will with would you your
"""
_STOP_WORDS = frozenset(_STOPPED.split())
