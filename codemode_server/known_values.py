"""Known values that are replaced wherever they stand, as personal data is by its tokens; `redaction` does it."""

from __future__ import annotations

from bisect import bisect_right
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


def texts_with(values: KnownValues, value: JsonValue) -> frozenset[str]:
    """The texts, keys and numbers in a JSON value in which known values may be. Short ones are searched together, since
    each search costs something."""
    found: set[str] = set()
    together: list[str] = []
    size = 0

    def search() -> None:
        starts = [0, *accumulate(len(text) + 1 for text in together)]
        for start, end, _ in values.spans("\n".join(together)):
            found.update(together[max(0, bisect_right(starts, start) - 1) : bisect_right(starts, end - 1)])

    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
            waiting += item
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and len(item) > _SEARCHED_AT_ONCE:
            found.add(item)
        elif not isinstance(item, bool | None):
            together.append(str(item))
            size += len(together[-1]) + 1
            if size > _SEARCHED_AT_ONCE:
                search()
                together.clear()
                size = 0
    search()
    return frozenset(found)
