"""Known values that are replaced wherever they stand, as personal data is by its tokens; `redaction` does it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from codemode_server.domain.ids import JsonValue
from codemode_server.json_texts import BATCH_CHARACTERS, text_batches

Span = tuple[int, int, str]
"""Start and end in a text, and what is put there."""


class KnownValues(Protocol):
    """Values that are not shown, each with what is put in its place."""

    def spans(self, text: str) -> list[Span]:
        """Where they are in a text, in order and without overlaps. Called in any thread."""


Found = Mapping[str, Sequence[Span] | None]
"""Texts with known values → where these are in each; None: not known, the text has to be searched alone."""


def found_in(values: KnownValues, value: JsonValue) -> Found:
    """The texts, keys and numbers in a JSON value that may have known values. Short ones are searched together, since
    each search costs something."""
    found: dict[str, list[Span] | None] = {}
    for batch in text_batches(value):
        if len(batch) == 1 and len(batch[0]) > BATCH_CHARACTERS:
            found[batch[0]] = None
        else:
            for text, spans in _found_together(values, batch).items():
                found[text] = merged(sorted({*(found.get(text) or ()), *spans}))
    return found


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


def _found_together(values: KnownValues, texts: list[str]) -> dict[str, list[Span]]:
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    by_text: dict[str, set[Span]] = {}
    for start, end, put in values.spans("\n".join(texts)):
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        for place in range(first, last + 1):  # one that is spread over several texts is replaced in each of them
            begin, stop = max(start - starts[place], 0), min(end - starts[place], len(texts[place]))
            if begin < stop:
                by_text.setdefault(texts[place], set()).add((begin, stop, put))
    return {text: merged(sorted(spans)) for text, spans in by_text.items()}


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
