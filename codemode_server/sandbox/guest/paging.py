"""`tool.pages(…)`: the items of all pages of a tool with a cursor, a page number or an offset.

The next cursor is read from the page; numbers and offsets go on until a page is empty, shorter than one before it, or
says that it is the last. What a page says is looked for in its objects, the outer ones first, never inside lists.
Pages are never left out silently: one that can't be read so is an error, which has the items read before in `items` and
the page in `page`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import urllib.parse
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from .calls import LimitExceeded, ToolError, Unfinished
from .link import Link


def _words(text: str) -> list[str]:
    return text.split()


MAX_PAGES = 1_000
_MAX_DEPTH = 4
_CURSORS = _words(
    """
cursor nextcursor pagecursor startcursor aftercursor pagetoken nextpagetoken nexttoken paginationtoken
continuationtoken marker nextmarker scrollid startingafter after
"""
)
_NUMBERS = ["page", "pagenumber", "pagenum", "pageno", "pageindex", "pageidx"]
_OFFSETS = ["offset", "skip", "startat", "startindex"]
_NEXT = _words(
    """
nextcursor nextpagetoken nexttoken nextpagecursor nextmarker nextcontinuationtoken endcursor nextoffset nextpage
nextpageuri nextpageurl nextlink nexturl next continuationtoken paginationtoken scrollid cursor pagetoken marker after
"""
)
"""Fields that name the next page, the most telling first; the last four may also repeat the request."""
_ECHOES = frozenset(_NEXT[-4:])
_MORE = frozenset(["hasmore", "hasnextpage", "hasnext", "hasmoreresults", "moreresults", "istruncated", "more"])
_LAST = frozenset(["islast", "islastpage", "lastpage", "last"])
_ITEMS = _words(
    """
items results data records rows values entries nodes edges hits objects list issues pullrequests commits repositories
users members messages channels files documents events tasks tickets contacts
"""
)
_BESIDE = frozenset(["errors", "warnings", "links", "columns", "headers", "fields", "facets"])


def normal(name: str) -> str:
    """A name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


class PageParameters:
    """The parameters of a tool that select a page."""

    def __init__(self, title: str, parameters: Mapping[str, tuple[str, Any]], documentation: str) -> None:
        """`parameters`: Python name → annotation and default."""
        self.title = title
        self._parameters = parameters
        self._documentation = documentation
        self.cursor = self._first_of(_CURSORS, lambda kind: kind != "bool")
        self.number = self._first_of(_NUMBERS, _is_number)
        self.offset = self._first_of(_OFFSETS, _is_number)
        if not (self.cursor or self.number or self.offset):
            raise TypeError(f"{title}() has no paging parameter (cursor, page or offset); call it without .pages")

    def first_number(self) -> int:
        """The number of the first page, as far as the stub says."""
        name = self.number or ""
        default = self._parameters[name][1]
        if isinstance(default, int) and not isinstance(default, bool):
            return default
        said = re.search(rf"^\s*{name}\b.*\b(?:0|zero)[- ](?:based|indexed)", self._documentation, re.M | re.I)
        return 0 if "ind" in normal(name) or "idx" in normal(name) or said else 1

    def _first_of(self, names: list[str], fits: Callable[[str], bool]) -> str | None:
        own = {normal(name): name for name, (kind, _) in self._parameters.items() if fits(kind)}
        return next((own[name] for name in names if name in own), None)


class _Walk:
    """The state of one iteration over pages: `arguments` request the next page, None at the end."""

    def __init__(self, parameters: PageParameters, arguments: dict[str, Any]) -> None:
        self._parameters = parameters
        self.arguments: dict[str, Any] | None = dict(arguments)
        self._pages = 0
        self._longest = 0
        self._path: tuple[str, ...] | None = None
        self._cursors: list[Any] = []
        self._before: list[Any] | None = None
        self._items: list[Any] = []
        self._given: list[Any] = []

    def take(self, page: Any, *, is_whole: bool) -> list[Any]:
        """The items of a page, or the page itself; `turn` is called after they are yielded."""
        self._pages += 1
        self._items = self._items_of(page, is_whole)
        given = [page] if is_whole else self._items
        self._given += given
        return given

    def turn(self, page: Any) -> None:
        """Go on to the next page."""
        sent = self.arguments or {}
        step = self._step(page, sent)
        if step is not None and self._pages >= MAX_PAGES:
            raise self._error(f"did not end after {MAX_PAGES:,} pages; use .first(count), or narrow the search")
        self._longest = max(self._longest, len(self._items))
        self._before = self._items
        self.arguments = None if step is None else {**sent, **step}

    def failed(self, error: ToolError | LimitExceeded) -> None:
        """A call did not succeed: its error gets what was read before."""
        error.items = self._given
        if self._given:
            title, count = self._parameters.title, len(self._given)
            error.add_note(
                f"page {self._pages + 1} of {title}.pages(); .items of this error has the {count} read before"
            )

    def _items_of(self, page: Any, is_whole: bool) -> list[Any]:
        if self._path is None:
            paths = _list_paths(page)
            if len(paths) > 1 and not is_whole:
                names = ", ".join(".".join(path) for path in paths[:10])
                raise self._error(f"gave several lists ({names}); take them from .by_page()", page)
            self._path = paths[0] if len(paths) == 1 else None
        if self._path is not None:
            for key in self._path:
                page = page.get(key) if isinstance(page, dict) else None
            return page if isinstance(page, list) else []
        if is_whole:
            return []
        what = f"an object with {', '.join(map(repr, list(page)[:10]))}" if isinstance(page, dict) else None
        raise self._error(f"gave no list of items but {what or type(page).__name__}; pass the page yourself", page)

    def _step(self, page: Any, sent: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments that select the next page; None at the end."""
        parameters, more = self._parameters, _says_more(page)
        is_named, mark = _next_mark(page, sent.values() if self._pages == 1 else ())
        if more is False or (is_named and mark is None and not more):
            return None
        if parameters.cursor is not None and mark is not None:
            cursor = _cursor_of(mark, parameters.cursor)
            if cursor in self._cursors:
                raise self._error(f"gave the same cursor twice: {str(cursor)[:80]!r}")
            self._cursors.append(cursor)
            return {parameters.cursor: cursor}
        if parameters.number is not None or parameters.offset is not None:
            return self._counted(sent, more or mark is not None)
        if more:
            raise self._error(
                "says that there are more items, but not how to ask for them; pass the page argument yourself"
            )
        return None

    def _counted(self, sent: dict[str, Any], more: bool) -> dict[str, Any] | None:
        parameters, items = self._parameters, self._items
        if items and items == self._before:
            name = parameters.number or parameters.offset
            raise self._error(f"gave the same page twice: {name!r} doesn't select the page")
        if self._path is None and not more:
            raise self._error("gave no list, so the last page can't be recognised; pass the page argument yourself")
        if not more and (not items or len(items) < self._longest):
            return None
        if parameters.number is not None:
            return {parameters.number: int(sent.get(parameters.number, parameters.first_number())) + 1}
        name = parameters.offset or ""
        return {name: int(sent.get(name) or 0) + len(items)} if items else None

    def _error(self, message: str, page: Any = None) -> ToolError:
        title, count = self._parameters.title, len(self._given)
        read = f" (.items of this error has the {count} read so far)" if count else ""
        read += " (.page of this error has it)" if page is not None and not count else ""
        error = ToolError(f"{title}.pages(): page {self._pages} {message}{read}", tool=title, kind="pages")
        error.items, error.page = self._given, page
        return error


class Pages(Unfinished):
    """The items of all pages, asked for as they are needed: `for`, `async for`, `list(…)`, or awaited for a list."""

    def __init__(
        self,
        parameters: PageParameters,
        begin: Callable[[dict[str, Any]], Future[Any]],
        link: Link,
        arguments: dict[str, Any],
        *,
        most: int | None = None,
        is_whole: bool = False,
    ) -> None:
        self._parameters = parameters
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
        walk = _Walk(self._parameters, self._arguments)
        while walk.arguments is not None and left != 0:
            call = self._begin(walk.arguments)
            yield call
            try:
                page = call.result()
            except (ToolError, LimitExceeded) as error:
                walk.failed(error)
                raise
            given = walk.take(page, is_whole=self._is_whole)[:left]
            yield given
            left = None if left is None else left - len(given)
            if left != 0:
                walk.turn(page)

    def __await__(self) -> Generator[Any, Any, list[Any]]:
        return self._collected().__await__()

    async def _collected(self) -> list[Any]:
        return [item async for item in self]

    def _value(self) -> list[Any]:
        return list(self)

    def __repr__(self) -> str:
        return f"<{self._parameters.title}.pages(…): iterate over it>"

    def _with(self, **changed: Any) -> Pages:
        same = {"most": self._most, "is_whole": self._is_whole}
        return Pages(self._parameters, self._begin, self._link, self._arguments, **(same | changed))


def _is_number(annotation: str) -> bool:
    return any(word in annotation for word in ("int", "float", "Any"))


def _list_paths(page: Any) -> list[tuple[str, ...]]:
    """Where the items may be: `()` if the page is a list; one path if a name says which list of several is meant."""
    if isinstance(page, list):
        return [()]
    for level in _levels(page):
        lists = [(*path, key) for path, fields in level for key, value in fields.items() if isinstance(value, list)]
        paths = [path for path in lists if normal(path[-1]) not in _BESIDE]
        named = [path for path in paths if normal(path[-1]) in _ITEMS]
        if paths:
            return [min(named, key=lambda path: _ITEMS.index(normal(path[-1])))] if named else paths
    return []


def _next_mark(page: Any, sent: Any) -> tuple[bool, Any]:
    """Finds the mark of the next page: True and the mark, or `(True, None)` if the page says that there is none."""
    said = list(sent)
    for level in _levels(page):
        marks = [
            (value in (None, "", False), _NEXT.index(normal(key)), value)
            for _, fields in level
            for key, value in fields.items()
            if normal(key) in _NEXT
            and not isinstance(value, (list, dict))
            and value is not True
            and not (normal(key) in _ECHOES and value in said)
        ]
        if marks:
            # A name with a value says more than another one without.
            return True, min(marks, key=lambda mark: mark[:2])[2] or None
    return False, None


def _cursor_of(mark: Any, parameter: str) -> Any:
    """The cursor in a mark, which may be the URL of the next page."""
    if isinstance(mark, str) and re.match(r"(https?:/)?/|[\w./-]*\?", mark):
        with contextlib.suppress(ValueError):  # `https://[x`
            query = urllib.parse.parse_qsl(urllib.parse.urlsplit(mark).query)
            return next((value for name, value in query if normal(name) == normal(parameter)), mark)
    return mark


def _says_more(page: Any) -> bool | None:
    """True if the page says that there is another one; None if it says nothing."""
    for level in _levels(page):
        for _, fields in level:
            for key, value in fields.items():
                if isinstance(value, bool) and normal(key) in _MORE | _LAST:
                    return value if normal(key) in _MORE else not value
    return None


def _levels(page: Any) -> Iterator[list[tuple[tuple[str, ...], dict[str, Any]]]]:
    """The objects of a page, level by level, each with the path to it."""
    level: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), page)] if isinstance(page, dict) else []
    for _ in range(_MAX_DEPTH):
        if not level:
            return
        yield level
        level = [((*path, k), v) for path, fields in level for k, v in fields.items() if isinstance(v, dict)]
