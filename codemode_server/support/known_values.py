"""Known values that are replaced wherever they stand, as personal data is by its tokens; `redaction` does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

Span = tuple[int, int, str]
"""Start and end in a text, and what is put there."""
SURROGATES = re.compile("[\ud800-\udfff]")


class KnownValues(Protocol):
    """Values that are not shown, each with what is put in its place."""

    def spans(self, text: str) -> list[Span]:
        """Where they are in a text, in order and without overlaps. Called in any thread."""


class DistinctKeys:
    """Gives the keys of one object other names, so that all stay different: two keys that are the same person's become
    `<EMAIL_1>` and `<EMAIL_1> (2)`."""

    def __init__(self, given: Collection[str]) -> None:
        self._given = given
        self._numbers: dict[str, int] = {}
        self._taken: set[str] = set()

    def named(self, key: str, shown: str) -> str:
        """How a key is called that is to be shown so."""
        if shown == key:
            return key
        free, number = shown, self._numbers.get(shown, 1)
        while free in self._given or free in self._taken:
            number += 1
            free = f"{shown} ({number})"
        self._numbers[shown] = number
        self._taken.add(free)
        return free


def with_spans_replaced(text: str, spans: Iterable[Span], limit: int | None = None) -> str:
    """The text, or its first `limit` characters, each span replaced, also one that ends after them. The spans are in
    order and without overlaps."""
    parts: list[str] = []
    place, end = 0, len(text) if limit is None else limit
    for start, stop, put in spans:
        if start >= end:
            break
        parts += [text[place:start], put]
        place = stop
    parts.append(text[place:end])
    return "".join(parts)


def merged(spans: Iterable[Span], first_choice: str | None = None) -> list[Span]:
    """Spans in order, with those that overlap as one. It puts what the first of them puts, or `first_choice` if one of
    them puts that."""
    together: list[Span] = []
    for start, end, put in spans:
        if together and start < together[-1][1]:
            before = together[-1]
            chosen = put if put == first_choice else before[2]
            together[-1] = (before[0], max(end, before[1]), chosen)
        else:
            together.append((start, end, put))
    return together


def with_values_replaced(value: Any, spans_of: Callable[[str], list[Span]], *, with_keys: bool = True) -> Any:
    """A JSON value with its spans replaced in texts and keys, and in place of whole numbers."""
    if isinstance(value, dict):
        distinct = DistinctKeys(value)
        return {
            (distinct.named(key, _replaced(key, spans_of)) if with_keys else key): with_values_replaced(
                item, spans_of, with_keys=with_keys
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_values_replaced(item, spans_of, with_keys=with_keys) for item in value]
    if isinstance(value, str):
        return _replaced(value, spans_of)
    if isinstance(value, bool | None):
        return value
    written = str(value)  # a secret of digits may come back as a number
    return next((put for start, end, put in spans_of(written) if (start, end) == (0, len(written))), value)


def _replaced(text: str, spans_of: Callable[[str], list[Span]]) -> str:
    spans = spans_of(text)
    return with_spans_replaced(text, spans) if spans else text
