"""Dictionaries: the words that requests to tools are made of, a language each, with what they are in English.

A file has a line for each English word: `file: archivo fichero`. Words of several parts are written with `_`. Under
`[verbs]`, `busc/ar` stands for all the forms of such a verb; under `[nouns]`, `+` stands before a plural that does not
follow the rule; under `[adjectives]`, the endings are added. `-` in the place of English: left out. What stands first
holds. `also_english.txt` has the words that are English or names, too, and so say nothing about the language.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from codemode_server.search.dictionaries.forms import forms_of_adjective, forms_of_noun, forms_of_verb, plural

SPACED = ("german", "french", "spanish", "portuguese", "italian", "russian")
"""Languages with spaces between words."""
UNSPACED = ("chinese", "japanese", "korean")
"""Languages whose words are looked for in running text; Korean, since what stands behind a word belongs to it."""


class Meaning(NamedTuple):
    """What a word is in English, and what it says about the language of a text."""

    english: str
    """Empty to leave the word out."""
    kind: str
    """`function`, `verb`, `noun` …: the section it stands in."""
    weight: int
    """As a sign of its language: 2, 1 for a function word, 0 for what is an English word or a name, too."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    """One language."""

    name: str
    words: dict[str, Meaning] = field(default_factory=dict)
    """By the word in lower case, with its accents and without; parts of a phrase have a space between."""
    parts: dict[str, str] = field(default_factory=dict)
    """What compounds are made of, in English, always in the singular; only of German."""
    longest: int = 1
    """Of a phrase in words, or of a word in letters where there are no spaces."""
    letters: dict[int, str] = field(default_factory=dict)
    """Forms of letters that stand for others: traditional ones of Chinese."""


@cache
def dictionary(name: str) -> Dictionary:
    """The dictionary of a language of `SPACED` or `UNSPACED`."""
    lines = list(_lines(name))
    words: dict[str, Meaning] = {}
    ambiguous = also_english()
    for derived in (False, True):
        for kind, english, word in lines:
            if kind in ("loan", "letters"):
                continue
            for form, said in _forms(name, kind, english, word) if derived else _written(kind, english, word):
                meaning = _meaning("" if said == "-" else said, kind, 1 if kind == "function" else 2)
                for spelling in _spellings(form, name):
                    if spelling not in words:
                        words[spelling] = meaning._replace(weight=0) if spelling in ambiguous else meaning
    parts = _parts(lines, words) if name == "german" else {}
    unit = len if name in UNSPACED else _number_of_words
    return Dictionary(name, words, parts, max(map(unit, words)), _letters(lines))


@cache
def signs() -> dict[str, tuple[tuple[str, int], ...]]:
    """Words that are no English words → the languages with spaces that have them, and how much they say."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name in SPACED:
        for word, meaning in dictionary(name).words.items():
            if meaning.weight:
                found.setdefault(word, []).append((name, meaning.weight))
    return {word: tuple(said) for word, said in found.items()}


@cache
def also_english() -> frozenset[str]:
    """Words of the dictionaries that are English words or names, too."""
    return frozenset(_read("also_english").split())


def folded(word: str) -> str:
    """In lower case and without accents."""
    low = word.casefold()
    if low.isascii():
        return low
    return "".join(letter for letter in unicodedata.normalize("NFKD", low) if not unicodedata.combining(letter))


_meaning = lru_cache(maxsize=None)(Meaning)
"""One for all the forms of a word."""


def _read(name: str) -> str:
    return (files(__package__) / f"{name}.txt").read_text("utf-8")


def _lines(name: str) -> Iterator[tuple[str, str, str]]:
    """(section, English, word)."""
    kind = ""
    for line in _read(name).splitlines():
        if line.startswith("["):
            kind = line.strip("[]").split()[0].removesuffix("s")
            kind = {"letter": "letters"}.get(kind, kind)
        elif kind in ("loan", "letters"):
            for word in line.split():
                yield kind, "", word
        elif line:
            english, _, said = line.partition(": ")
            for word in said.split():
                yield kind, english, word.replace("_", " ")


def _written(kind: str, english: str, word: str) -> Iterator[tuple[str, str]]:
    """The word as it is in the file."""
    if kind == "noun" and word.startswith("+"):
        yield word[1:], plural(english)
    elif "/" not in word:
        yield word, english


def _forms(name: str, kind: str, english: str, word: str) -> Iterator[tuple[str, str]]:
    """Its forms by rule."""
    if name in UNSPACED:
        return
    if kind == "verb" and "/" in word:
        for form in forms_of_verb(name, word):
            yield form, english
    elif kind == "noun":
        is_plural = word.startswith("+")
        for form, many in forms_of_noun(name, word.lstrip("+"), is_plural):
            yield form, plural(english) if many else english
    elif kind == "adjective":
        for form in forms_of_adjective(name, word):
            yield form, english


def _spellings(form: str, name: str) -> tuple[str, ...]:
    if form.isascii() or name in UNSPACED:
        return (form,)
    if name == "german":
        return form, folded(form), folded(form.translate(_WRITTEN_OUT))
    return form, folded(form)


_WRITTEN_OUT = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def _parts(lines: list[tuple[str, str, str]], words: dict[str, Meaning]) -> dict[str, str]:
    parts: dict[str, str] = {}
    for kind, _, word in lines:
        if kind == "loan":
            part, _, english = word.partition("=")
            for spelling in _spellings(part, "german"):
                parts[spelling] = english or part
    one_by_many = {plural(english): english for kind, english, _ in lines if kind == "noun"}
    for word, meaning in words.items():
        if meaning.kind == "noun" and len(word) >= 3 and " " not in word:
            parts.setdefault(word, one_by_many.get(meaning.english, meaning.english))
    return parts


def _letters(lines: list[tuple[str, str, str]]) -> dict[int, str]:
    rows = [word for kind, _, word in lines if kind == "letters"]
    return {
        ord(one): other
        for many, few in zip(rows[::2], rows[1::2], strict=True)
        for one, other in zip(many, few, strict=True)
    }


def _number_of_words(phrase: str) -> int:
    return phrase.count(" ") + 1
