"""`tool.pages(…)`: the items of all pages of a tool that gives its results page by page.

The parameter that turns the page (see `page_parameters`) is a cursor, a range, a page number or an offset. A cursor is
taken from what the page says of the next one (see `page_marks`); numbers and offsets go on until a page is empty, or
shorter than one before it, or the page says that it is the last. A page that is a text is one item, and says itself how
to go on. A page that can't be read so, or a tool that has no paging parameter, is an error: pages are never left out
silently. The error has what was read before in `items`, and the page that can't be read in `page`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any

from . import page_marks
from .calls import LimitExceeded, ToolError, Unfinished
from .link import Link
from .page_marks import normal, words
from .page_parameters import Ways

MAX_PAGES = 1_000
_POSITIONS = words("startindex startat startfrom start")
"""Offsets into one long text; the last part has no continuation note."""


def _as_int(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class _Turner:
    """The state of one iteration over pages: `arguments` request the next page, None at the end."""

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
        self._has_marked_text = False
        self._here: list[Any] = []
        self._given: list[Any] = []

    def take(self, page: Any, *, is_whole: bool) -> list[Any]:
        """The items of a page, or the page itself; `turn` is called after they are yielded."""
        self._pages += 1
        self._here = self._items_of(page, is_whole)
        self._items += len(self._here)
        given = [page] if is_whole else self._here
        self._given += given
        return given

    def turn(self, page: Any) -> None:
        """Go on to the next page."""
        sent, items = self.arguments or {}, self._here
        step = self._step_of_text(page, items, sent) if isinstance(page, str) else self._step(page, items, sent)
        if step is not None and self._pages >= MAX_PAGES:
            raise self._error(f"did not end after {MAX_PAGES:,} pages; use .first(count), or narrow the search")
        self._longest = max(self._longest, len(items))
        self._before = items
        self.arguments = None if step is None else {**sent, **step}

    def failed(self, error: ToolError | LimitExceeded) -> None:
        """A call did not succeed: its error gets what was read before."""
        error.items = self._given
        if self._given:
            title, count = self._ways.title, len(self._given)
            error.add_note(
                f"page {self._pages + 1} of {title}.pages(); .items of this error has the {count} read before"
            )

    def _items_of(self, page: Any, is_whole: bool) -> list[Any]:
        if isinstance(page, str):
            return [page]
        try:
            if self._path is None:
                self._path = page_marks.items_path(page)
        except page_marks.Unclear as unclear:
            if not is_whole:
                raise self._error(f"gave several lists ({unclear}); take them from .by_page()", page) from None
        if self._path is not None:
            return page_marks.at(page, self._path)
        if is_whole:
            return []
        what = (
            f"an object with {', '.join(map(repr, list(page)[:10]))}" if isinstance(page, dict) else type(page).__name__
        )
        raise self._error(f"gave no list of items but {what}; take whole pages from .by_page()", page)

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
            raise self._error(
                "says that there are more items, but not how to ask for them; pass the page argument yourself"
            )
        return None

    def _step_of_text(self, page: str, items: list[Any], sent: dict[str, Any]) -> dict[str, Any] | None:
        """Like `_step`, for a page that is a text."""
        ways = self._ways
        for name in (ways.cursor, ways.offset, ways.number):
            if name is not None:
                is_number = name != ways.cursor or ways.takes_number(name)
                mark = page_marks.mark_in_text(page, name, is_number=is_number, sent=sent.values())
                if mark is not None:
                    self._has_marked_text = True
                    return self._unless_seen({name: int(mark) if is_number else mark})
        if items == self._before:
            raise self._error(
                f"gave the same page twice: {ways.cursor or ways.offset or ways.number!r} doesn't select the page"
            )
        is_position = ways.offset is not None and normal(ways.offset) in _POSITIONS
        if self._has_marked_text or ways.cursor is not None or is_position:
            return None
        raise self._error("is a text that has no continuation note; pass the page argument yourself", page)

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
            raise self._error(f"gave the same page twice: {ways.number or ways.offset!r} doesn't select the page")
        if self._path is None and more is None:
            raise self._error("gave no list, so the last page can't be recognised; pass the page argument yourself")
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

    def _error(self, message: str, page: Any = None) -> ToolError:
        title, count = self._ways.title, len(self._given)
        read = f" (.items of this error has the {count} read so far)" if count else ""
        read += " (.page of this error has it)" if page is not None and not count else ""
        error = ToolError(f"{title}.pages(): page {self._pages} {message}{read}", tool=title, kind="pages")
        error.items, error.page = self._given, page
        return error


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
        for step in self._steps():
            if isinstance(step, Future):
                with contextlib.suppress(ToolError, LimitExceeded):  # raised from `_steps`
                    self._link.wait(step)
            else:
                yield from step

    async def __aiter__(self) -> AsyncIterator[Any]:
        for step in self._steps():
            if isinstance(step, Future):
                with contextlib.suppress(ToolError, LimitExceeded):
                    await asyncio.wrap_future(step)
            else:
                for item in step:
                    yield item

    def _steps(self) -> Iterator[Future[Any] | list[Any]]:
        """The call for each page, to be waited for, and then what the page gives."""
        left = self._most
        turner = _Turner(self._ways, self._arguments)
        while turner.arguments is not None and left != 0:
            call = self._begin(turner.arguments)
            yield call
            try:
                page = call.result()
            except (ToolError, LimitExceeded) as error:
                turner.failed(error)
                raise
            given = turner.take(page, is_whole=self._is_whole)[:left]
            yield given
            left = None if left is None else left - len(given)
            if left != 0:
                turner.turn(page)

    def __await__(self) -> Generator[Any, Any, list[Any]]:
        return self._collected().__await__()

    async def _collected(self) -> list[Any]:
        return [item async for item in self]

    def _value(self) -> list[Any]:
        return list(self)

    def __repr__(self) -> str:
        return f"<{self._ways.title}.pages(…): iterate over it>"

    def _with(self, **changed: Any) -> Pages:
        same = {"most": self._most, "is_whole": self._is_whole}
        return Pages(self._ways, self._begin, self._link, self._arguments, **(same | changed))
