"""The known personal values of one principal, and where they stand in texts.

Values are searched for as they were first seen, in any letter case, between words; disguised or partial values are not
found. A name of one word, a date of birth and others that tell nobody by themselves are not searched for: the detector
replaces them in their own fields.
"""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ahocorasick_rs import AhoCorasick, MatchKind

from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges
from codemode_server.features.privacy.findings import Kind
from codemode_server.features.privacy.given_names import is_person
from codemode_server.features.privacy.replacing import with_held_texts
from codemode_server.support.known_values import SURROGATES, Span, merged, with_values_replaced

_MIN_CHARACTERS = 4
_MIN_FREE_CHARACTERS = 6
"""The minimum of addresses and passwords, which have no syntax."""
_MAX_SHORTENED = 64


class KnownTexts:
    """May be used in any thread. As `KnownValues` it finds the values that are telling in any text."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._known: dict[str, KnownToken] = {}
        self._by_folded: dict[str, str] = {}
        self._telling: set[str] = set()
        self._automata: list[tuple[AhoCorasick, list[str]]] = []
        """The largest first; each has more than twice as many values as the next, so that adding some is cheap."""
        self.last_change = 0

    def take(self, changes: TokenChanges) -> None:
        with self._guard:
            if changes.are_all:
                for token in self._known.keys() - {one.token for one in changes.tokens}:
                    self._forget(token)
            added: list[str] = []
            for one in changes.tokens:
                if one.original is None:
                    self._forget(one.token)
                elif one.token not in self._known and ((is_telling := _is_telling(one)) or _is_full_name(one)):
                    self._known[one.token] = one
                    if is_telling:
                        self._telling.add(one.token)
                    self._by_folded.setdefault(folded(one.original), one.token)
                    added.append(folded(one.original))
            if added:
                self._index(added)
            self.last_change = changes.number

    def _forget(self, token: str) -> None:
        known = self._known.pop(token, None)
        self._telling.discard(token)
        if known is not None and self._by_folded.get(text := folded(known.original or "")) == token:
            del self._by_folded[text]

    def _index(self, added: list[str]) -> None:
        automata = [*self._automata]
        while automata and len(automata[-1][1]) <= 2 * len(added):
            added += automata.pop()[1]
        added = [text for text in dict.fromkeys(added) if text in self._by_folded]
        self._automata = [*automata, (_automaton(added), added)] if added else automata

    def spans(self, text: str) -> list[Span]:
        """Start, end and token of each telling value, in order, without overlaps."""
        return self._spans(text, lambda known: known.token in self._telling)

    def kinds_in(self, text: str) -> dict[str, str]:
        """The telling values in a text, with their kinds."""
        known = [self._known.get(token) for _, _, token in self.spans(text)]
        return {it.original: it.kind for it in known if it is not None and it.original is not None}

    def _spans(self, text: str, counts: Callable[[KnownToken], bool]) -> list[Span]:
        if len(text) < 2 or not self._automata:
            return []
        low, found = folded(text), list[Span]()
        for automaton, _ in self._automata:
            for _, start, end in automaton.find_matches_as_indexes(low):
                if (end := self._whole_end(low, start, end)) and (
                    known := self._known.get(self._by_folded.get(low[start:end], ""))
                ):
                    is_in_token = text[start - 1 : start] == "<" and text[end : end + 1] == ">"
                    if counts(known) and not is_in_token:
                        found.append((start, end, known.token))
        return merged(sorted(found, key=lambda it: (it[0], -it[1])))

    def _whole_end(self, low: str, start: int, end: int) -> int:
        """Where the longest value ends that begins here and stands between words; 0 if there is none."""
        if _is_within_word(low, start):
            return 0
        for stop in range(end, max(start, end - _MAX_SHORTENED), -1):
            if not _is_within_word(low, stop) and (stop == end or low[start:stop] in self._by_folded):
                return stop
        return 0

    def tokenized_result(self, value: Any, server: str) -> Any:
        """The result of a server with tokens in place of known names of several words: those of persons, and those that
        this server had first. So no server can turn words of another one into tokens by calling them names."""

        def is_name(known: KnownToken) -> bool:
            return _is_full_name(known) and (known.server == server or known.token in self._telling)

        if not self._automata:
            return value
        spans_of = with_held_texts(lambda text: self._spans(text, is_name))
        return with_values_replaced(value, spans_of, with_keys=False)


@dataclass(frozen=True)
class EveryValue:
    """The known values of several principals as `KnownValues`."""

    texts: Collection[KnownTexts]

    def spans(self, text: str) -> list[Span]:
        return merged(sorted(span for one in self.texts for span in one.spans(text)))


def without_echo(value: Any, sent: Mapping[str, str]) -> Any:
    """An answer with the tokens in place of the values that its call has sent, also without spaces and escaped for
    URLs, HTML and JSON. A single word counts as a whole text, as it was sent."""
    by_spelling: dict[str, str] = {}
    words = {original: token for token, original in sent.items() if original.isalpha()}
    for token, original in sent.items():
        escaped = json.dumps(original)[1:-1], json.dumps(original, ensure_ascii=False)[1:-1], html.escape(original)
        joined = "".join(original.split()) if any(map(str.isdigit, original)) else original
        for spelling in (original, joined, quote(original), quote(original, safe=""), *escaped):
            if not original.isalpha() and len(spelling) > 1:
                by_spelling.setdefault(folded(spelling), token)
    automaton = _automaton([*by_spelling]) if by_spelling else None

    def spans(text: str) -> list[Span]:
        if text in words:
            return [(0, len(text), words[text])]
        low = folded(text)
        return [
            (start, end, by_spelling[low[start:end]])
            for _, start, end in (automaton.find_matches_as_indexes(low) if automaton else ())
            if not (_is_within_word(low, start) or _is_within_word(low, end))
            and (end - start >= _MIN_CHARACTERS or end - start == len(text))
        ]

    return with_values_replaced(value, with_held_texts(spans))


def folded(text: str) -> str:
    """A text in small letters, each character in its place, without surrogates."""
    text = text if text.isascii() else SURROGATES.sub("?", text)
    low = text.lower()
    return low if len(low) == len(text) else "".join(it.lower() if len(it.lower()) == 1 else it for it in text)


def _automaton(texts: list[str]) -> AhoCorasick:
    return AhoCorasick(texts, matchkind=MatchKind.LeftmostLongest)


def _is_within_word(text: str, at: int) -> bool:
    """True if letters or digits stand on both sides; an escape of URLs or JSON (`%20`, `\\n`) before it is none."""
    is_after_escape = text[at - 3 : at - 2] == "%" or text[at - 2 : at - 1] == "\\" or text[at - 6 : at - 4] == "\\u"
    return text[at - 1 : at].isalnum() and text[at : at + 1].isalnum() and not is_after_escape


def _is_telling(known: KnownToken) -> bool:
    text = known.original or ""
    match known.kind:
        case Kind.BIRTH_DATE:  # few enough to try them all: a token would tell which guess is right
            return False
        case Kind.NAME:
            return is_person(text)
        case Kind.ADDRESS | Kind.CREDENTIAL:
            return len(text) >= _MIN_FREE_CHARACTERS and any(map(str.isdigit, text))
        case _:
            return len(text) >= _MIN_CHARACTERS


def _is_full_name(known: KnownToken) -> bool:
    return known.kind == Kind.NAME and " " in (known.original or "")
