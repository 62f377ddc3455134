"""The parameters of a tool that select a page: which they are, by their names, and where the first page is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .page_marks import normal, words

CURSORS = words(
    "cursor nextcursor pagecursor startcursor aftercursor endcursor pagetoken nextpagetoken nexttoken "
    "paginationtoken continuationtoken continuation starttoken pagingtoken marker nextmarker bookmark "
    "scrollid exclusivestartkey startingafter after"
)
_RANGES = words("range")
NUMBERS = words("page pagenumber pagenum pageno pageindex pageidx currentpage")
OFFSETS = words("offset skip startat startindex startfrom start")
_SIZES = words("limit pagesize perpage maxresults maxitems maxcount top count size first take rows")
_FROM_ZERO = re.compile(
    r"\b(0|zero)[- ](based|indexed)|start(s|ing)? (at|from|with) (0|zero)\b|>= 0|\b0 \(the first", re.I
)


class Ways:
    """How the page of one tool can be turned."""

    def __init__(self, title: str, parameters: Mapping[str, tuple[str, Any]], documentation: str) -> None:
        """`parameters`: Python name → annotation and default."""
        self.title = title
        self._parameters = parameters
        self._documentation = documentation
        self.cursor = self._first_of(CURSORS, lambda kind: kind != "bool") or self._first_of(_RANGES, _is_text)
        self.number = self._first_of(NUMBERS, _is_number)
        self.offset = self._first_of(OFFSETS, _is_number)
        self.size = self._first_of(_SIZES, _is_number)
        if self.offset is not None and normal(self.offset) == "start" and self._first_of(["end", "stop"], bool):
            self.offset = None  # a range, not a page
        if not (self.cursor or self.number or self.offset):
            raise TypeError(
                f"{title}() has no paging parameter (cursor, range, page or offset); call it without .pages"
            )

    def default(self, name: str) -> int | None:
        """The number that is meant where a parameter is left out."""
        found = self._parameters[name][1]
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def takes_number(self, name: str) -> bool:
        """Whether a parameter takes a number and no text."""
        kind = self._parameters[name][0]
        return _is_number(kind) and "Any" not in kind and not _is_text(kind)

    def first_number(self) -> int:
        """The number of the first page, as far as the stub says."""
        name = self.number or ""
        lines = map(str.strip, self._documentation.splitlines())
        said = [line for line in lines if line.startswith((f"{name}:", f"{name} ("))]
        is_from_zero = "ind" in normal(name) or "idx" in normal(name) or any(map(_FROM_ZERO.search, said))
        default = self.default(name)
        return default if default is not None else 0 if is_from_zero else 1

    def _first_of(self, names: list[str], fits: Callable[[str], bool]) -> str | None:
        found = {normal(name): name for name, (kind, _) in self._parameters.items() if fits(kind)}
        return next((found[name] for name in names if name in found), None)


def _is_text(annotation: str) -> bool:
    return "str" in annotation


def _is_number(annotation: str) -> bool:
    return any(word in annotation for word in ("int", "float", "Any"))
