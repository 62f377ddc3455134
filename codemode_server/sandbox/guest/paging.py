"""`tool.pages(…)`: the items of all pages of a tool with a cursor, a page number or an offset.

The next cursor is read from the page; numbers and offsets go on until a page is empty, shorter than one before it, or
says that it is the last. A page that can't be read so is an error, which has the items read before in `items` and the
page in `page`: no result is silently short.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import re
import urllib.parse
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from .calls import ToolError
from .link import Link
from .values import Unfinished

MAX_PAGES = 1_000
_MAX_DEPTH = 4
_CURSORS = """cursor nextcursor pagecursor startcursor aftercursor pagetoken nextpagetoken nexttoken paginationtoken
continuationtoken marker nextmarker scrollid startingafter after""".split()  # noqa: SIM905
_NUMBERS = ("page", "pagenumber", "pagenum", "pageno", "pageindex", "pageidx")
_OFFSETS = ("offset", "skip", "startat", "startindex")
_NEXT = """nextcursor nextpagetoken nexttoken nextpagecursor nextmarker nextcontinuationtoken endcursor nextoffset
nextpage nextpageuri nextpageurl nextlink nexturl next continuationtoken paginationtoken scrollid cursor pagetoken
marker after""".split()  # noqa: SIM905
"""Fields that name the next page, the most telling first."""
_REPEATING = frozenset(["cursor", "pagetoken", "marker", "after"])
"""Those of them that may also repeat the request."""
_MORE = frozenset(["hasmore", "hasnextpage", "hasnext", "hasmoreresults", "moreresults", "istruncated", "more"])
_LAST = frozenset(["islast", "islastpage", "lastpage", "last"])
_ITEMS = "items results data records rows values entries nodes edges hits objects list".split()  # noqa: SIM905
_NO_ITEMS = frozenset(["errors", "warnings", "links", "columns", "headers", "fields", "facets"])


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


class PageParameters:
    """The parameters of a tool that select a page; None for those that it lacks."""

    def __init__(self, title: str, parameters: Mapping[str, Any]) -> None:
        self.title = title
        own = {_normal(name): name for name in parameters}
        self.cursor, self.number, self.offset = (
            next((own[name] for name in names if name in own), None) for names in (_CURSORS, _NUMBERS, _OFFSETS)
        )
        if not (self.cursor or self.number or self.offset):
            raise TypeError(f"{title}() has no paging parameter (cursor, page or offset); call it without .pages")
        default = parameters.get(self.number or "")
        counts_from_0 = "index" in _normal(self.number or "") or "idx" in _normal(self.number or "")
        self.first_number = 0 if counts_from_0 else 1
        if type(default) is int:
            self.first_number = default


class _Walk:
    def __init__(self, parameters: PageParameters) -> None:
        self._parameters = parameters
        self._pages = 0
        self._longest = 0
        self._cursors: set[Any] = set()
        self._items: list[Any] | None = None
        self._before: list[Any] | None = None
        self.given: list[Any] = []

    def take(self, page: Any, *, is_whole: bool) -> list[Any]:
        self._pages += 1
        self._before, lists = self._items, _lists_in(page)
        self._items = next(iter(lists.values())) if len(lists) == 1 else None
        if not is_whole and len(lists) > 1:
            raise self._error(f"gave several lists ({', '.join(list(lists)[:10])}); take them from .by_page()", page)
        if not is_whole and self._items is None and self._pages == 1:
            what = f"an object with {', '.join(map(repr, list(page)[:10]))}" if isinstance(page, dict) else None
            raise self._error(f"gave no list of items but {what or type(page).__name__}; pass the page yourself", page)
        given = [page] if is_whole else self._items or []
        self.given += given
        return given

    def next_page(self, page: Any, sent: dict[str, Any]) -> dict[str, Any] | None:
        arguments = self._following(page, sent)
        if arguments is not None and self._pages >= MAX_PAGES:
            raise self._error(f"did not end after {MAX_PAGES:,} pages; use .first(count), or narrow the search")
        return arguments

    def _following(self, page: Any, sent: dict[str, Any]) -> dict[str, Any] | None:
        parameters, fields = self._parameters, list(_fields_of(page))
        answers = [value if name in _MORE else not value for name, value in fields if name in _MORE | _LAST]
        more = next((it for it in answers if isinstance(it, bool)), None)
        marks = [
            (not value, _NEXT.index(name), value)
            for name, value in fields
            if name in _NEXT
            and not isinstance(value, (list, dict))
            and value is not True
            # A first page may repeat the argument that asked for it.
            and not (name in _REPEATING and self._pages == 1 and value in sent.values())
        ]
        mark = min(marks, key=lambda it: it[:2])[2] if marks else None
        if more is False or (marks and not mark and not more):
            return None
        if parameters.cursor is not None and mark:
            cursor = _cursor_of(mark, parameters.cursor)
            if cursor in self._cursors:
                raise self._error(f"gave the same cursor twice: {str(cursor)[:80]!r}")
            self._cursors.add(cursor)
            return {**sent, parameters.cursor: cursor}
        if parameters.number is None and parameters.offset is None:
            if more:
                message = "says that there are more items, but not how to ask for them; pass the page argument yourself"
                raise self._error(message)
            return None
        return self._counted(sent, is_more=bool(more or mark))

    def _counted(self, sent: dict[str, Any], *, is_more: bool) -> dict[str, Any] | None:
        number, offset, items = self._parameters.number, self._parameters.offset, self._items or []
        if items and items == self._before:
            raise self._error(f"gave the same page twice: {number or offset!r} doesn't select the page")
        if self._items is None and self._pages == 1 and not is_more:
            raise self._error("gave no list, so the last page can't be recognised; pass the page argument yourself")
        self._longest = max(self._longest, len(items))
        if not is_more and (not items or len(items) < self._longest):
            return None
        if number is not None:
            return {**sent, number: int(sent.get(number, self._parameters.first_number)) + 1}
        return {**sent, str(offset): int(sent.get(str(offset)) or 0) + len(items)} if items else None

    def _error(self, message: str, page: Any = None) -> ToolError:
        title, count = self._parameters.title, len(self.given)
        read = f" (.items of this error has the {count} read so far)" if count else ""
        read += " (.page of this error has it)" if page is not None and not count else ""
        error = ToolError(f"{title}.pages(): page {self._pages} {message}{read}", tool=title, kind="pages")
        error.items, error.page = self.given, page
        return error


class Pages(Unfinished):
    """The items of all pages, asked for as they are needed: `for`, `async for`, `list(…)`, or awaited for a list."""

    def __init__(
        self,
        parameters: PageParameters,
        begin: Callable[[dict[str, Any]], Future[Any]],
        link: Link,
        arguments: dict[str, Any],
    ) -> None:
        self._parameters = parameters
        self._begin = begin
        self._link = link
        self._arguments = arguments
        self._most: int | None = None
        self._is_whole = False

    def first(self, count: int) -> Pages:
        """No more than so many; no page is asked for that is not needed for them."""
        pages = copy.copy(self)
        pages._most = count if self._most is None else min(count, self._most)
        return pages

    def by_page(self) -> Pages:
        """Whole results, one for each page."""
        pages = copy.copy(self)
        pages._is_whole = True
        return pages

    def __iter__(self) -> Iterator[Any]:
        for step in self._steps():
            if isinstance(step, Future):
                with contextlib.suppress(ToolError):  # raised from `_steps`
                    self._link.wait(step)
            else:
                yield from step

    async def __aiter__(self) -> AsyncIterator[Any]:
        for step in self._steps():
            if isinstance(step, Future):
                with contextlib.suppress(ToolError):
                    await asyncio.wrap_future(step)
            else:
                for item in step:
                    yield item

    def _steps(self) -> Iterator[Future[Any] | list[Any]]:
        """The call for each page, to be waited for, and then what the page gives."""
        arguments: dict[str, Any] | None = dict(self._arguments)
        left, walk = self._most, _Walk(self._parameters)
        while arguments is not None and left != 0:
            call = self._begin(arguments)
            yield call
            try:
                page = call.result()
            except ToolError as error:
                error.items = walk.given
                if walk.given:
                    error.add_note(f".items of this error has the {len(walk.given)} read before")
                raise
            given = walk.take(page, is_whole=self._is_whole)[:left]
            yield given
            left = None if left is None else left - len(given)
            if left != 0:
                arguments = walk.next_page(page, arguments)

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return self._collected().__await__()

    async def _collected(self) -> list[Any]:
        return [item async for item in self]

    def _value(self) -> list[Any]:
        return list(self)

    def __repr__(self) -> str:
        return f"<{self._parameters.title}.pages(…): iterate over it>"


def _lists_in(page: Any) -> dict[str, list[Any]]:
    """The lists that may be the items, by their paths: of the outermost level that has any, the one with a usual name,
    or else all."""
    if isinstance(page, list):
        return {"": page}
    level: dict[tuple[str, ...], dict[str, Any]] = {(): page} if isinstance(page, dict) else {}
    for _ in range(_MAX_DEPTH):
        inner = {(*path, key): value for path, fields in level.items() for key, value in fields.items()}
        lists = {".".join(path): it for path, it in inner.items() if isinstance(it, list)}
        lists = {path: it for path, it in lists.items() if _normal(path.rpartition(".")[2]) not in _NO_ITEMS}
        if named := [path for path in lists if _normal(path.rpartition(".")[2]) in _ITEMS]:
            path = min(named, key=lambda it: _ITEMS.index(_normal(it.rpartition(".")[2])))
            return {path: lists[path]}
        if lists:
            return lists
        level = {path: value for path, value in inner.items() if isinstance(value, dict)}
    return {}


def _fields_of(page: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a page and of the objects in it, the outer ones first, without those in lists."""
    level = [page] if isinstance(page, dict) else []
    for _ in range(_MAX_DEPTH):
        fields = [(_normal(str(key)), value) for one in level for key, value in one.items()]
        yield from fields
        level = [value for _, value in fields if isinstance(value, dict)]


def _cursor_of(mark: Any, parameter: str) -> Any:
    """The cursor in a mark, which may be the URL of the next page."""
    if isinstance(mark, str) and re.match(r"(https?:/)?/|[\w./-]*\?", mark):
        with contextlib.suppress(ValueError):  # `https://[x`
            query = urllib.parse.parse_qsl(urllib.parse.urlsplit(mark).query)
            return next((value for name, value in query if _normal(name) == _normal(parameter)), mark)
    return mark
