"""A query in another language → the same with its commonest words in English, word by word.

Words, verbs and encoders of the search all know English only. This is no translation: it finds the few hundred words
that requests to tools are made of and leaves the rest as it is, names and values above all. A query changes only if
more of its words belong to another language than to English; what is in quotes or looks like an identifier, a path or
an address never does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from codemode_server.search.dictionaries import SPACED, Dictionary, Meaning, dictionary, folded, signs

_READ_CHARACTERS = 2_000
"""What is beyond stays as it is."""
_OF_MEANING = 2
"""The weight of a word of meaning as a sign of its language."""
_ENOUGH = 2
"""Signs that a language needs: a word of meaning, or two function words."""
_LONGEST_WORD = 40
_SHORTEST_PART = 3


def in_english(query: str, is_said: Callable[[str], bool] = lambda word: False) -> str:
    """The query itself if it is in English already, or in no language that is known.

    `is_said` tells whether tools themselves say a word: then it stays, beside its English.
    """
    text = query[:_READ_CHARACTERS]
    if not text.isascii() and _UNSPACED.search(text):
        changed = _unspaced(text, is_said)
    else:
        low = _WORD.findall(text.lower())
        if not _has_signs(low, text.isascii()) and (not _ENGLISH.isdisjoint(low) or not any(map(_compound, low))):
            return query
        changed = _spaced(text, is_said)
    return query if changed is None else changed + query[_READ_CHARACTERS:]


def _has_signs(words: list[str], are_plain: bool) -> bool:
    known = signs().keys()
    return not (known.isdisjoint(words) and (are_plain or known.isdisjoint(map(folded, words))))


_WORD = re.compile(r"[^\W\d_]+")
_UNSPACED = re.compile("[぀-ヿ㐀-䶿一-鿿가-힣]")
_SAID_IN_ENGLISH = """
    the of and to for with from my your our please is are be what which that this how many show find get create delete
    remove list send give make add between into about there can could should would need want it its their when where
    who has have using given every each by if not
"""
_ENGLISH = frozenset(_SAID_IN_ENGLISH.split())
"""Words that hardly stand in a query of another language."""

_KEPT = r"""
    "[^"\n]{0,300}" | “[^”\n]{0,300}” | „[^“”\n]{0,300}[“”] | «[^»\n]{0,300}» | `[^`\n]{0,300}`
    | 「[^」\n]{0,300}」 | 『[^』\n]{0,300}』 | 《[^》\n]{0,300}》 | 【[^】\n]{0,300}】 | <[^<>\n]{1,60}>
    | (?<!\w)'[^'\n]{1,300}'(?!\w) | ‘[^’\n]{1,300}’(?!\w)
    | [A-Za-z][A-Za-z0-9+.-]{1,15}://[!-~]+
    | [!-~]{0,60}(?:[0-9A-Za-z][_@\\/=:.]|[_@\#/\\=$%.])[0-9A-Za-z][!-~]*
    | (?<![^\W_])[A-Za-z]*[0-9][0-9A-Za-z]*(?![^\W_])
    | \b[A-Za-z]*[a-z][A-Z][0-9A-Za-z]*
"""
"""What stays: quoted, placeholders, addresses, paths, `snake_case`, `camelCase`, `file.txt`, numbers."""
_PIECE = re.compile(rf"(?P<kept>{_KEPT})|(?P<word>[^\W\d_]+)", re.VERBOSE)
_WITHIN_PHRASE = {" ", "-", "'", "’"}


class _Words:
    """The words of a query that may change, and where they are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: list[tuple[int, int]] = []
        self.forms: list[str] = []
        self.may_be_name: list[bool] = []
        """Whether it begins with a capital within a sentence: a name, but in German."""
        shouted = text.isupper()
        for piece in _PIECE.finditer(text):
            word = piece["word"]
            if word is None or len(word) > _LONGEST_WORD or (len(word) > 1 and word.isupper() and not shouted):
                continue
            before = text[: piece.start()].rstrip(" ¿¡(-*")[-1:]
            self.spans.append(piece.span())
            self.forms.append(word.lower())
            self.may_be_name.append(word[0].isupper() and not shouted and before not in ("", ".", "!", "?", ":", "\n"))


def _spaced(text: str, is_said: Callable[[str], bool]) -> str | None:
    found = _Words(text)
    language = _language(found)
    if language is None:
        return None
    out, done, place = "", 0, 0
    while place < len(found.forms):
        number, meaning = _longest(found, place, language)
        if meaning is not None:
            first, last = found.spans[place], found.spans[place + number - 1]
            between = text[done : first[0]]
            out = _with(out, " " if done and between in _WITHIN_PHRASE else between)
            out += _said(meaning, " ".join(found.forms[place : place + number]), is_said)
            done = last[1]
            if text[done : done + 1] in ("'", "’"):  # l'image, dell'anno
                out, done = out + " ", done + 1
        place += number
    return _with(out, text[done:]).strip()


def _with(out: str, between: str) -> str:
    """What stands between two words; around one that is left out, one space is enough."""
    return out + (between[1:] if between.startswith(" ") and out[-1:] in ("", " ") else between)


def _said(meaning: Meaning, word: str, is_said: Callable[[str], bool]) -> str:
    """The English, and the word itself if tools say it: twice, since that is the better sign."""
    return f"{word} {meaning.english} {word}" if meaning.weight == _OF_MEANING and is_said(word) else meaning.english


def _language(found: _Words) -> Dictionary | None:
    """The one with most signs, if it has more than English."""
    known = signs()
    scores = dict.fromkeys(SPACED, 0)
    for form, may_be_name in dict(zip(found.forms, found.may_be_name, strict=True)).items():
        for name, weight in known.get(form) or known.get(folded(form), ()):
            if not may_be_name or name == "german":
                scores[name] += weight
    english = 2 * len(_ENGLISH.intersection(found.forms))
    if not english:
        scores["german"] += _OF_MEANING * sum(1 for form in set(found.forms) if form not in known and _compound(form))
    best = max(scores, key=lambda name: scores[name])
    return dictionary(best) if scores[best] >= max(_ENOUGH, english + 1) else None


def _longest(found: _Words, place: int, language: Dictionary) -> tuple[int, Meaning | None]:
    """How many words from here are one in the dictionary, and what they mean; one and none if there is none."""
    if found.may_be_name[place] and language.name != "german":
        return 1, None
    for number in range(min(language.longest, len(found.forms) - place), 0, -1):
        if _stand_together(found, place, number):
            phrase = " ".join(found.forms[place : place + number])
            if meaning := language.words.get(phrase) or language.words.get(folded(phrase)):
                return number, meaning
    compound = _compound(found.forms[place]) if language.name == "german" else None
    return 1, Meaning(compound, "noun", _OF_MEANING) if compound else None


def _stand_together(found: _Words, place: int, number: int) -> bool:
    return all(
        found.text[found.spans[at][1] : found.spans[at + 1][0]] in _WITHIN_PHRASE
        for at in range(place, place + number - 1)
    )


def _compound(word: str) -> str | None:
    """A German compound of two words that are known: `Tabellenzeile` is a table row."""
    if not 2 * _SHORTEST_PART <= len(word) <= _LONGEST_WORD:
        return None
    german, form = dictionary("german"), folded(word)
    for at in range(_SHORTEST_PART, len(form) - _SHORTEST_PART + 1):
        first, second = german.parts.get(form[:at]), german.words.get(form[at:])
        last = second.english if second and second.kind == "noun" else german.parts.get(form[at:])
        if first and last and (_is_german(form[:at], german) or _is_german(form[at:], german)):
            return f"{first} {last}"
    return None


def _is_german(part: str, german: Dictionary) -> bool:
    meaning = german.words.get(part)
    return meaning is not None and meaning.weight > 0


_RUN = re.compile(rf"(?P<kept>{_KEPT})|(?P<run>[々ー぀-ヿ㐀-䶿一-鿿가-힣]+)|(?P<word>[A-Za-zÀ-ɏ]+)", re.VERBOSE)
_KANA = re.compile("[぀-ヿ]")
_HANGUL = re.compile("[가-힣]")
_HIRAGANA = re.compile("[ぁ-ん]")


def _unspaced(text: str, is_said: Callable[[str], bool]) -> str | None:
    pieces = list(_RUN.finditer(text))
    running = "".join(piece["run"] for piece in pieces if piece["run"])
    if _KANA.search(running):
        names: tuple[str, ...] = ("japanese",)
    else:
        names = ("korean",) if _HANGUL.search(running) else ("chinese", "japanese")
    tried = [[_words_of(text, piece, dictionary(name)) for piece in pieces] for name in names]
    cut = max(tried, key=_letters_known)
    known = sum(1 for parts in cut for _, meaning in parts or () if meaning)
    english = sum(1 for word in {piece["word"].lower() for piece in pieces if piece["word"]} if word in _ENGLISH)
    if known <= english:
        return None
    out, done = "", 0
    for piece, parts in zip(pieces, cut, strict=True):
        if parts is not None:
            said = [_said(meaning, raw, is_said) if meaning else raw for raw, meaning in parts]
            out = _with(out, text[done : piece.start()])
            out = _with(out, f" {' '.join(filter(None, said))}".rstrip()) + " "
            done = piece.end()
    return _with(out, text[done:]).strip()


def _words_of(text: str, piece: re.Match[str], language: Dictionary) -> list[tuple[str, Meaning | None]] | None:
    """Of a run of a script without spaces; none of any other piece."""
    run = piece["run"]
    return list(_cut(run, language, text[: piece.start()][-1:].isalnum())) if run else None


def _letters_known(cut: list[list[tuple[str, Meaning | None]] | None]) -> int:
    return sum(len(raw) for parts in cut for raw, meaning in parts or () if meaning)


def _cut(run: str, language: Dictionary, is_behind_word: bool) -> Iterator[tuple[str, Meaning | None]]:
    """Running text as words of the dictionary, the longest first, and what is between them."""
    looked_at = run.translate(language.letters)
    unknown, at = 0, 0
    while at < len(run):
        number = _longest_at(looked_at, at, language)
        if number == 1 and not _may_stand_alone(looked_at, at, unknown, language, is_behind_word):
            number = 0
        if number:
            if unknown < at:
                yield run[unknown:at], None
            yield run[at : at + number], language.words[looked_at[at : at + number]]
            unknown = at + number
        at += number or 1
    if unknown < len(run):
        yield run[unknown:], None


def _longest_at(text: str, at: int, language: Dictionary) -> int:
    return next(
        (
            size
            for size in range(min(language.longest, len(text) - at), 0, -1)
            if text[at : at + size] in language.words
        ),
        0,
    )


def _may_stand_alone(text: str, at: int, unknown: int, language: Dictionary, is_behind_word: bool) -> bool:
    """Whether a single letter is a word here, and no part of one that is not known."""
    kind = language.words[text[at]].kind
    is_behind_unknown, is_last = unknown < at, at == len(text) - 1
    if language.name == "korean":
        return not is_behind_unknown or (is_last and kind == "function")
    if kind == "function":
        return language.name == "chinese" or (
            (at > 0 or is_behind_word) and not (is_behind_unknown and _HIRAGANA.match(text[at - 1]))
        )
    return not is_behind_unknown and (kind == "verb" or is_last or _longest_at(text, at + 1, language) > 0)
