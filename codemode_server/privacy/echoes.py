"""Puts tokens in place of the values that a call has sent in its answer: the answer of a tool has often what it was
called with. Pure.

A value is found in the disguises that `originals` undoes, in texts that are JSON or base64, and whatever separates its
words. Only what was sent is looked for, so that no other value can hide one of these, and no part of a value counts.
Each text is searched by itself: of a value that an answer has in several texts, no text stands for the whole. Time is
linear in the answer; what a search has no time to examine is replaced by a part of a value.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import Any, NamedTuple

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN, part_of
from codemode_server.json_depth import is_nested_deeper
from codemode_server.json_texts import text_batches
from codemode_server.known_values import Span, merged
from codemode_server.privacy.encodings import Wrapping, encoded_parts, may_be_wrapped, unwrapped, wrapped
from codemode_server.privacy.folding import SEPARATORS, fold
from codemode_server.privacy.given_names import begins_with_given_name, is_given_name
from codemode_server.privacy.known_in_values import with_tokens
from codemode_server.privacy.normal_forms import spelling
from codemode_server.privacy.ordinary_words import is_ordinary
from codemode_server.privacy.original_forms import PART_CHARACTERS, PART_DIGITS
from codemode_server.privacy.originals import Originals

_MIN_CHARACTERS, _MIN_WORD_LETTERS = 4, 3
_OPENING = "+("
_BETWEEN = "\nqxzjq\n"
"""Stands between texts that are searched together. A value with these letters, which goes from one to the next, is
found all the same, and replaced in each."""
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(rb"[a-z\x80-\xfd]+")
_NO_NAME = re.compile(rb"[0-9@]")
_NUMBER = re.compile(r"-?([0-9]+)(?:\.0)?")
"""A number as it is searched; of `-7.0`, only the digits may be what was sent."""
_OTHER_SEPARATORS = (" ", "_", "-", ".", "")
_MAX_WRAPPINGS, _MAX_WRAPPED_DEPTH, _MAX_WRAPPED = 6, 20, 20_000
"""What is nested deeper in texts, and beyond so many of these, is searched as a text."""


def tokenized_echo(value: Any, sent: Mapping[str, str]) -> Any:
    """The answer to a call that has sent these values, by token; a number is replaced if a whole value is one."""
    return Echoes(sent).tokenized(value)


class _Value(NamedTuple):
    text: str
    letters: frozenset[bytes]
    """Its letters and digits as they are compared, forwards and backwards."""
    is_word: bool
    """Whether it is one ordinary word: that is often no name where it stands in a text."""
    is_ordinary: bool
    """Whether it is of ordinary words, and does not begin with a given name: it may be the name of a field."""


class Echoes:
    """Some values with their tokens. What has fewer than four letters and digits is not looked for."""

    def __init__(self, sent: Mapping[str, str]) -> None:
        """`sent`: token → value."""
        self._originals = Originals(only_wholes=True)
        self._values: dict[str, _Value] = {}
        self._by_spelling: dict[str, str] = {}
        self._words: dict[str, str] = {}
        """Tokens by the texts that are ordinary words: as they are, in base64 and as hexadecimal digits. Such a value
        counts as a whole text only, in whatever encoding."""
        for token, value in sent.items():
            if sum(map(len, _WORD.findall(value))) >= _MIN_CHARACTERS:
                self._values[token] = described = _described(value)
                if described.is_word:
                    self._words |= dict.fromkeys(_encodings(value), token)
                else:
                    self._originals.add(value, token, *_other_spellings(value))
                self._by_spelling.setdefault(spelling(value), token)

    def tokenized(self, value: JsonValue) -> Any:
        """A JSON value with tokens in place of the values; the same object if it has none of them."""
        if not self._values:
            return value
        texts = _Texts(value)
        found = self.found(texts.all)
        return _Walk(self, texts, found).tokenized(value) if found else value

    def counting(self, text: str, spans: Iterable[Span], *, is_key: bool) -> list[Span]:
        """Those of these that count in a text in which they were found, each with the token of the value that is
        written as what stands there."""
        chosen: list[Span] = []
        for start, end, put in spans:
            there = text[start:end]
            token = self._by_spelling.get(spelling(there), put)
            if (value := self._values.get(token)) is None:
                chosen.append((start, end, put))
            elif _counts(value, text, there, is_key):
                is_opened = there[:1] != value.text[0] in _OPENING and text[start - 1 : start] == value.text[0]
                chosen.append((start - is_opened, end, token))
        return chosen

    def found(self, texts: Iterable[str]) -> dict[str, list[Span]]:
        """Where values may be, by text. Short texts are searched together, since each search costs something."""
        found: dict[str, list[Span]] = {}
        searched = [text for text in texts if len(text) >= _MIN_CHARACTERS]
        for batch, _, _ in text_batches(searched):
            starts = [0, *accumulate(len(text) + len(_BETWEEN) for text in batch)]
            for start, end, put in self._originals.spans(_BETWEEN.join(batch)):
                first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
                for place in range(first, last + 1):
                    text = batch[place]
                    begin, stop = start - starts[place], end - starts[place]
                    is_inside = begin >= 0 and stop <= len(text)
                    span = max(begin, 0), min(stop, len(text)), put if is_inside else _part_of(put)
                    if span[0] < span[1]:
                        found.setdefault(text, []).append(span)
        if self._words:
            for text in searched:
                if (token := self._words.get(bare := text.strip())) is not None:
                    start = text.index(bare)
                    found[text] = [(start, start + len(bare), token)]
        return found


class _Texts:
    """The different texts of a value, keys and numbers among them, and those in texts that are JSON or base64."""

    def __init__(self, value: JsonValue) -> None:
        self.all: dict[str, None] = {}
        """But for texts that are JSON, of which the texts in it are searched."""
        self.held: dict[str, tuple[Wrapping, Any]] = {}
        """What texts hold that are JSON or base64."""
        self.encoded: dict[str, list[tuple[int, int, str]]] = {}
        """Start, end and content of the parts of texts that are declared to be base64."""
        self._wrapped = 0
        self._visited: set[tuple[int, str]] = set()
        self._take(value, 0)

    def _take(self, value: JsonValue, wrappings: int) -> None:
        for texts, _, are_keys in text_batches(value):
            for text in texts:
                if are_keys:
                    self.all[text] = None
                elif (wrappings, text) not in self._visited:
                    self._visited.add((wrappings, text))
                    has_room = wrappings < _MAX_WRAPPINGS and self._wrapped < _MAX_WRAPPED
                    if not has_room or not self._is_json(text, wrappings):
                        self.all[text] = None

    def _is_json(self, text: str, wrappings: int) -> bool:
        """Whether a text is JSON; what it holds is taken, and what it has in base64."""
        held = unwrapped(text) if may_be_wrapped(text) else None
        if held is not None and not is_nested_deeper(held[1], _MAX_WRAPPED_DEPTH):
            self.held[text] = held
            self._wrapped += 1
            self._take(held[1], wrappings + 1)
            return held[0] is Wrapping.JSON
        parts = [*islice(encoded_parts(text), _MAX_WRAPPED - self._wrapped)]
        if parts:
            self.encoded[text] = [(part.start, part.end, inner) for part, inner in parts]
            self._wrapped += len(parts)
        for _, inner in parts:
            self._take(inner, wrappings + 1)
        return False


class _Walk:
    """Puts what was found into a value, and into what its texts hold."""

    def __init__(self, echoes: Echoes, texts: _Texts, found: dict[str, list[Span]], wrappings: int = 0) -> None:
        self._echoes = echoes
        self._texts = texts
        self._found = found
        self._wrappings = wrappings

    def tokenized(self, value: JsonValue) -> Any:
        return with_tokens(value, self._in_key, self._in_other, with_numbers=True)

    def _in_key(self, text: str) -> list[Span]:
        return self._in_text(text, is_key=True)

    def _in_other(self, text: str) -> list[Span]:
        if self._wrappings == _MAX_WRAPPINGS:
            return self._in_text(text, is_key=False)
        if (held := self._texts.held.get(text)) is not None:
            wrapping, inner = held
            if (shown := self._within(inner)) != inner:
                return [(0, len(text), wrapped(wrapping, shown, text))]
            if wrapping is Wrapping.JSON:
                return []
        spans = self._in_text(text, is_key=False)
        return self._with_encoded(text, spans) if text in self._texts.encoded else spans

    def _within(self, held: JsonValue) -> Any:
        return _Walk(self._echoes, self._texts, self._found, self._wrappings + 1).tokenized(held)

    def _in_text(self, text: str, *, is_key: bool) -> list[Span]:
        if text not in self._texts.all:  # it was unwrapped elsewhere, where it is nested less deep
            self._texts.all[text] = None
            self._found |= self._echoes.found([text])
        found = self._found.get(text)
        spans = self._echoes.counting(text, found, is_key=is_key) if found else []
        if len(spans) == 1 and (number := _NUMBER.fullmatch(text)) and spans[0][:2] == number.span(1):
            return [(0, len(text), spans[0][2])]
        return spans

    def _with_encoded(self, text: str, spans: list[Span]) -> list[Span]:
        """These, and what stands in place of parts that are base64."""
        parts = [*self._encoded(text)]
        starts = [start for start, _, _ in parts]

        def is_within(span: Span) -> bool:
            before = bisect_right(starts, span[0]) - 1
            return before >= 0 and span[1] <= parts[before][1]

        return merged(sorted((*(it for it in spans if not is_within(it)), *parts)))

    def _encoded(self, text: str) -> Iterator[Span]:
        for start, end, inner in self._texts.encoded[text]:
            if (shown := self._within(inner)) != inner:
                yield start, end, wrapped(Wrapping.BASE64, shown, text[start:end])


def _described(value: str) -> _Value:
    folded = fold(value)
    letters = folded.translate(None, SEPARATORS)
    with_ss = fold(value.replace("ß", "ss")).translate(None, SEPARATORS)
    words = _LETTERS.findall(folded)
    has_ordinary = _NO_NAME.search(folded) is None and all(map(is_ordinary, words))
    has_ordinary = has_ordinary and any(len(word) >= _MIN_WORD_LETTERS for word in words)
    is_word = has_ordinary and len(words) == 1
    is_person = not is_word and begins_with_given_name(value)
    both = frozenset((letters, letters[::-1], with_ss))
    return _Value(value, both, is_word, has_ordinary and not is_person)


def _counts(value: _Value, text: str, there: str, is_key: bool) -> bool:
    """Whether `there`, which stands in a text, is the value, and no word or name of a field that is written so."""
    if fold(there).translate(None, SEPARATORS) not in value.letters:
        return True  # it is encoded, as no word is
    if "@" in value.text:
        bare = _bare(value.text)
        return _bare(there) in (bare, bare[::-1])  # `ann@fass.de` is another mailbox than `ann@faß.de`
    if value.is_word:
        return there == value.text == text.strip() and (not is_key or is_given_name(there))
    return not (value.is_ordinary and is_key) or (there == value.text == text and not text.islower())


def _encodings(word: str) -> Iterator[str]:
    data = word.encode()
    yield word
    for encoded in (base64.b64encode(data), base64.urlsafe_b64encode(data)):
        yield from (encoded.decode(), encoded.decode().rstrip("="))
    yield from (data.hex(), data.hex().upper())


def _bare(text: str) -> str:
    return "".join(_WORD.findall(text.lower()))


def _other_spellings(value: str) -> Iterator[str]:
    """Those that are not found by the value itself."""
    words = _WORD.findall(value)
    if len(words) > 1 and begins_with_given_name(value):
        yield value.lower()  # ordinary words in small letters are a name then
    joined = "".join(words)
    if len(words) > 1 and len(joined) < (PART_DIGITS if joined.isdigit() else PART_CHARACTERS):
        yield from (separator.join(words) for separator in _OTHER_SEPARATORS)


def _part_of(put: str) -> str:
    return part_of(put) if TOKEN.fullmatch(put) else put
