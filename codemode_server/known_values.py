"""Known values that are replaced wherever they stand, as personal data is by its tokens; `redaction` does it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

from codemode_server.domain.ids import JsonValue

_SEARCHED_AT_ONCE = 256 * 1024
"""Characters of short texts that are searched together."""
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
    together: list[str] = []
    size = 0
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
            waiting += item
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and len(item) > _SEARCHED_AT_ONCE:
            found[item] = None
        elif not isinstance(item, bool | None):
            together.append(str(item))
            size += len(together[-1]) + 1
            if size > _SEARCHED_AT_ONCE:
                found |= _found_together(values, together)
                together, size = [], 0
    return found | _found_together(values, together)


def _found_together(values: KnownValues, texts: list[str]) -> dict[str, list[Span] | None]:
    found: dict[str, list[Span] | None] = {}
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    by_place: dict[int, list[Span]] = {}
    for start, end, put in values.spans("\n".join(texts)):
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        if first == last and end - starts[first] <= len(texts[first]):
            by_place.setdefault(first, []).append((start - starts[first], end - starts[first], put))
        else:  # what is found over several texts may be in none of them
            found |= dict.fromkeys(texts[first : last + 1])
    for place, spans in by_place.items():
        found.setdefault(texts[place], spans)
    return found
