"""`tool.pages(…)`: the items of all pages of a tool that gives its results page by page.

The parameter that turns the page is known by its name: a cursor, a page number or an offset. A cursor is taken from
what the page says of the next one (see `page_marks`); numbers and offsets go on until a page is empty, or shorter than
one before it, or the page says that it is the last. A page that can't be read so, and a tool that turns no page, is an
error: pages are never left out silently.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from . import page_marks
from .calls import ToolError, Unfinished
from .link import Link
from .page_marks import normal, words

MOST_PAGES = 1_000
CURSORS = words(
    "cursor nextcursor pagecursor startcursor aftercursor endcursor pagetoken nextpagetoken nexttoken "
    "paginationtoken continuationtoken continuation starttoken pagingtoken marker nextmarker bookmark "
    "scrollid exclusivestartkey startingafter after"
)
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
        self.cursor = self._first_of(CURSORS, lambda kind: kind != "bool")
        self.number = self._first_of(NUMBERS, _is_number)
        self.offset = self._first_of(OFFSETS, _is_number)
        self.size = self._first_of(_SIZES, _is_number)
        if self.offset is not None and normal(self.offset) == "start" and self._first_of(["end", "stop"], bool):
            self.offset = None  # a range, not a page
        if not (self.cursor or self.number or self.offset):
            raise TypeError(f"{title}() has no parameter that turns pages (a cursor, page or offset); call it as it is")

    def default(self, name: str) -> int | None:
        """The number that is meant where a parameter is left out."""
        found = self._parameters[name][1]
        return found if isinstance(found, int) and not isinstance(found, bool) else None

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


def _as_int(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_number(annotation: str) -> bool:
    return any(word in annotation for word in ("int", "float", "Any"))


class _Turner:
    """Where one walk over the pages stands: `arguments` ask for the next page, or are None at the end."""

    def __init__(self, ways: Ways, arguments: dict[str, Any]) -> None:
        self._ways = ways
        self.arguments: dict[str, Any] | None = dict(arguments)
        self._pages = 0
        self._items = 0
        self._skipped = _as_int(arguments.get(ways.offset or "")) or 0
        self._longest = 0
        self._path: tuple[str, ...] | None = None
        self._seen: list[Any] = []
        self._before: list[Any] | None = None

    def take(self, page: Any, *, is_whole: bool) -> list[Any]:
        """The items of a page, and on to the next one."""
        sent = self.arguments or {}
        self._pages += 1
        items = self._items_of(page, is_whole)
        self._items += len(items)
        step = self._step(page, items, sent)
        if step is not None and self._pages >= MOST_PAGES:
            raise self._error(f"did not end after {MOST_PAGES:,} pages; use .first(count), or narrow the search")
        self._longest = max(self._longest, len(items))
        self._before = items
        self.arguments = None if step is None else {**sent, **step}
        return items

    def _items_of(self, page: Any, is_whole: bool) -> list[Any]:
        try:
            if self._path is None:
                self._path = page_marks.items_path(page)
        except page_marks.Unclear as unclear:
            if not is_whole:
                raise self._error(f"gave several lists ({unclear}); take them from .by_page()") from None
        if self._path is not None:
            return page_marks.at(page, self._path)
        if is_whole:
            return []
        what = (
            f"an object with {', '.join(map(repr, list(page)[:10]))}" if isinstance(page, dict) else type(page).__name__
        )
        raise self._error(f"gave no list of items but {what}; take whole pages from .by_page()")

    def _step(self, page: Any, items: list[Any], sent: dict[str, Any]) -> dict[str, Any] | None:
        """What to ask for next, as arguments; None at the end."""
        ways, more = self._ways, page_marks.says_more(page)
        if more is False:
            return None
        marked, mark = page_marks.next_mark(page, sent.values() if self._pages == 1 else ())
        if marked and mark is None and not more:
            return None
        step = None if mark is None else self._by_mark(mark)
        if step is not None:
            return self._unless_seen(step)
        if ways.number is not None or ways.offset is not None:
            return self._by_counting(page, items, sent, more)
        if more and ways.cursor is not None and normal(ways.cursor) in ("after", "startingafter"):
            last = items[-1] if items else None
            if isinstance(last, dict) and last.get("id") is not None:
                return self._unless_seen({ways.cursor: last["id"]})
        if more or mark is not None:
            raise self._error("says that there are more, but not how to ask for them; call it page by page")
        return None

    def _by_mark(self, mark: Any) -> dict[str, Any] | None:
        ways, query = self._ways, page_marks.query_of(mark)
        names = [name for name in (ways.cursor, ways.number, ways.offset) if name is not None]
        if query is not None:
            found = {name: query[normal(name)] for name in names if normal(name) in query}
            if found:
                return {
                    n: v if n == ways.cursor else int(v) for n, v in found.items() if n == ways.cursor or v.isdecimal()
                }
        if ways.cursor is not None:
            return {ways.cursor: mark}
        number = int(mark) if isinstance(mark, str) and mark.isdecimal() else mark
        return {names[0]: number} if isinstance(number, int) else None

    def _by_counting(
        self, page: Any, items: list[Any], sent: dict[str, Any], more: bool | None
    ) -> dict[str, Any] | None:
        ways = self._ways
        if items and items == self._before:
            raise self._error(f"gave the same page twice: {ways.number or ways.offset!r} does not turn it")
        if self._path is None and more is None:
            raise self._error("gave no list by which to tell where the pages end; call it page by page")
        if not more and (not items or len(items) < self._longest or self._has_all(page, items, sent)):
            return None
        if ways.number is not None:
            at = _as_int(sent.get(ways.number))
            if at is None:
                said = page_marks.current_page(page)
                at = said if said is not None and said <= 1 else ways.first_number()
            count = page_marks.page_count(page)
            return None if count is not None and at >= max(count, 1) else {ways.number: at + 1}
        name = ways.offset or ""
        return {name: (_as_int(sent.get(name, ways.default(name))) or 0) + len(items)} if items else None

    def _has_all(self, page: Any, items: list[Any], sent: dict[str, Any]) -> bool:
        """Whether the page's total is reached. That of a first page that is full may be its own, and proves nothing."""
        total, size = page_marks.total(page), self._ways.size
        asked = None if size is None else sent.get(size, self._ways.default(size))
        if total is None or total < len(items) or (self._pages == 1 and len(items) == asked):
            return False
        return self._skipped + self._items >= total

    def _unless_seen(self, step: dict[str, Any]) -> dict[str, Any]:
        if step in self._seen:
            raise self._error(f"gave the same cursor twice: {str(next(iter(step.values())))[:80]!r}")
        self._seen.append(step)
        return step

    def _error(self, message: str) -> ToolError:
        return ToolError(
            f"{self._ways.title}.pages(): page {self._pages} {message}", tool=self._ways.title, kind="pages"
        )


class Pages(Unfinished):
    """The items of all pages, asked for as they are needed: `for`, `async for`, `list(…)`, or awaited for a list."""

    def __init__(
        self,
        ways: Ways,
        begin: Callable[[dict[str, Any]], Future[Any]],
        link: Link,
        arguments: dict[str, Any],
        *,
        most: int | None = None,
        is_whole: bool = False,
    ) -> None:
        self._ways = ways
        self._begin = begin
        self._link = link
        self._arguments = arguments
        self._most = most
        self._is_whole = is_whole

    def first(self, count: int) -> Pages:
        """No more than so many; no page is asked for that is not needed for them."""
        return self._with(most=count if self._most is None else min(count, self._most))

    def by_page(self) -> Pages:
        """Whole results, one for each page."""
        return self._with(is_whole=True)

    def __iter__(self) -> Iterator[Any]:
        left = self._most
        turner = _Turner(self._ways, self._arguments)
        while turner.arguments is not None and left != 0:
            for item in self._taken(turner, self._link.wait(self._begin(turner.arguments)), left):
                yield item
                left = None if left is None else left - 1

    async def __aiter__(self) -> AsyncIterator[Any]:
        left = self._most
        turner = _Turner(self._ways, self._arguments)
        while turner.arguments is not None and left != 0:
            page = await asyncio.wrap_future(self._begin(turner.arguments))
            for item in self._taken(turner, page, left):
                yield item
                left = None if left is None else left - 1

    def __await__(self) -> Generator[Any, Any, list[Any]]:
        return self._collected().__await__()

    async def _collected(self) -> list[Any]:
        return [item async for item in self]

    def _value(self) -> list[Any]:
        return list(self)

    def __repr__(self) -> str:
        return f"<{self._ways.title}.pages(…): iterate over it>"

    def _taken(self, turner: _Turner, page: Any, left: int | None) -> list[Any]:
        items = turner.take(page, is_whole=self._is_whole)
        return ([page] if self._is_whole else items)[:left]

    def _with(self, **changed: Any) -> Pages:
        same = {"most": self._most, "is_whole": self._is_whole}
        return Pages(self._ways, self._begin, self._link, self._arguments, **(same | changed))
