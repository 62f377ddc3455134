"""What the product itself writes in place of values: tokens, parts of them, and kinds such as `<BIRTH_DATE>`.

An upstream can call any text a name, the words of which tokens are made too. So no value is looked for, and nothing is
found, within a token.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence

from codemode_server.domain.privacy_tokens import TOKEN, label_of, part_of, whole_of
from codemode_server.known_values import Span
from codemode_server.privacy.findings import Kind

IsToken = Callable[[str], bool]
"""Whether a text in the form of a token is one: a program, or a query, could write a value so."""
FREE_FORMS = frozenset({Kind.ADDRESS, Kind.CREDENTIAL, Kind.NAME})
"""Kinds whose values have no syntax: any text can be one, and a part of one is personal too."""
_LABELS = "|".join(sorted(map(label_of, Kind), key=len, reverse=True))
_LABEL = re.compile(rf"(?:{_LABELS})(?:_[0-9]{{1,5}})?|<(?:{_LABELS})_[0-9]{{1,5}}>")
"""A longer number could be a value."""
_WRITTEN = re.compile(rf"<(?:{_LABELS})>|<(?:part of )?{TOKEN.pattern[1:]}")
_MIN_REST_CHARACTERS = 6
"""What is left of a value beside a token tells as little as a shorter part of it."""


def is_label(kind: str, value: str) -> bool:
    """Whether a value of a kind without syntax is the label of a kind, as tokens have it (`EMAIL` or `EMAIL_1`), or a
    token that was forgotten."""
    return kind in FREE_FORMS and _LABEL.fullmatch(value) is not None


def of_kinds(kinds: Collection[str]) -> IsToken:
    """Whether a token is of one of these kinds, for those who don't know which tokens exist."""
    labels = {*map(label_of, kinds)}
    return lambda token: (found := TOKEN.fullmatch(token)) is not None and found[1] in labels


def own_texts_in(text: str, is_token: IsToken) -> Iterator[tuple[int, int]]:
    """Start and end of each text in the form of one of the product's own, if `is_token` says so of the token in it."""
    if "<" in text:
        for found in _WRITTEN.finditer(text):
            if found[1] is None or is_token(whole_of(found[0])):
                yield found.span()


def beside_own_texts(text: str, spans: Sequence[Span], is_token: IsToken) -> list[Span]:
    """The spans of known values without what is in tokens."""
    if not spans or not (own := [*own_texts_in(text, is_token)]):
        return [*spans]
    return [rest for span in spans for rest in _rests(text, span, own)]


def _rests(text: str, span: Span, own: Sequence[tuple[int, int]]) -> Iterator[Span]:
    start, end, put = span
    at = bisect_right(own, start, key=lambda it: it[1])
    if at == len(own) or own[at][0] >= end:
        yield span
        return
    while start < end:
        stop = min(own[at][0], end) if at < len(own) else end
        if sum(map(str.isalnum, rest := text[start:stop])) >= _MIN_REST_CHARACTERS:
            yield start, stop - len(rest) + len(rest.rstrip()), part_of(whole_of(put))
        start = own[at][1] if at < len(own) else end
        at += 1
