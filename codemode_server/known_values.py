"""Known values that are replaced wherever they stand, as personal data is by its tokens; `redaction` does it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count
from typing import NamedTuple, Protocol

from codemode_server.domain.ids import JsonValue
from codemode_server.json_texts import text_batches

Span = tuple[int, int, str]
"""Start and end in a text, and what is put there."""


class KnownValues(Protocol):
    """Values that are not shown, each with what is put in its place."""

    def spans(self, text: str) -> list[Span]:
        """Where they are in a text, in order and without overlaps. Called in any thread."""


class Found(NamedTuple):
    """Where known values are in the texts of a JSON value, by the numbers that `text_batches` gives to texts."""

    in_keys: Mapping[int, Sequence[Span]]
    in_others: Mapping[int, Sequence[Span]]
    """In strings and numbers."""

    def __bool__(self) -> bool:
        return bool(self.in_keys or self.in_others)

    @property
    def all(self) -> Iterator[Span]:
        for spans in (*self.in_keys.values(), *self.in_others.values()):
            yield from spans


NOTHING_FOUND = Found({}, {})


class FoundInOrder:
    """Hands out what was found to a walk through the same value in the order of `text_batches`: all keys of an object,
    then its values one by one."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._keys, self._others = count(), count()

    def in_next_key(self) -> Sequence[Span]:
        return self._found.in_keys.get(next(self._keys), ())

    def in_next(self) -> Sequence[Span]:
        """In the next string or number that is no key."""
        return self._found.in_others.get(next(self._others), ())


def found_in(values: KnownValues, value: JsonValue, *, with_keys: bool = True) -> Found:
    """Where known values are in a JSON value. Short texts are searched together, since each search costs something."""
    in_keys: dict[int, list[Span]] = {}
    in_others: dict[int, list[Span]] = {}
    for texts, first, are_keys in text_batches(value):
        if are_keys and not with_keys:
            continue
        for number, spans in _found_together(values, texts, ":" if are_keys else "").items():
            (in_keys if are_keys else in_others)[first + number] = merged(sorted(spans))
    return Found(in_keys, in_others)


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


def _found_together(values: KnownValues, texts: list[str], behind: str) -> dict[int, set[Span]]:
    """Where known values are in each of these texts, by its number; `behind` stands behind each, as `:` behind keys."""
    if len(texts) == 1 and not behind:
        spans = {*values.spans(texts[0])}
        return {0: spans} if spans else {}
    starts = [0, *accumulate(len(text) + len(behind) + 1 for text in texts)]
    found: dict[int, set[Span]] = {}
    for start, end, put in values.spans(f"{behind}\n".join(texts) + behind):
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        for place in range(first, last + 1):  # one that is spread over several texts is replaced in each of them
            begin, stop = max(start - starts[place], 0), min(end - starts[place], len(texts[place]))
            if begin < stop:
                found.setdefault(place, set()).add((begin, stop, put))
    return found


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
