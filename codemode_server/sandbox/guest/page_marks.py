"""Reads a page of results: which part has the items, where the next page is, and whether there is one.

Every service has its own words for that, so names are compared without case and punctuation: `nextCursor`,
`next_cursor` and `NEXT-CURSOR` are one. Marks are looked for in objects, the outer ones first, never inside lists:
what stands there are the items themselves.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any


def words(text: str) -> list[str]:
    """Names, the most telling first."""
    return text.split()


_DEPTH = 4
_WIDTH = 200
"""Objects looked at on one level."""
_NEXT = words(
    "nextcursor nextpagetoken nexttoken nextpagecursor nextstartcursor nextmarker nextcontinuationtoken "
    "endcursor nextoffset nextstartat nextstartindex nextstart nextskip nextpagenumber nextpageuri "
    "nextpageurl nextpagelink nextlink odatanextlink nexturl nexturi nextrecordsurl nextpage next "
    "continuationtoken paginationtoken scrollid bookmark lastevaluatedkey lastkey nextrange cursor pagetoken "
    "marker after offset"
)
_ECHOES = frozenset(words("cursor pagetoken marker after offset bookmark continuationtoken"))
"""Those of these names that a server may also use to repeat the request."""
_INSIDE_NEXT = ("after", "cursor", "token", "href", "url", "uri", "link", "page", "offset", "start")
_MORE = frozenset(
    words("hasmore hasnextpage hasnext hasmorepages hasmoreresults hasmoreitems moreresults more istruncated")
)
_LAST = frozenset(words("islast islastpage last isend islastbatch scancomplete nomore"))
_OUTERMOST = frozenset(words("more last"))
"""Words that mean anything deeper inside."""
_TOTAL = frozenset(words("total totalcount totalresults totalitems totalrecords totalsize totalhits totalelements"))
_PAGES = frozenset(words("totalpages pagecount numpages pagestotal lastpage maxpage"))
_CURRENT = frozenset(words("page currentpage pagenumber pagenum pageno pageindex pageidx number"))
_ITEMS = words(
    "items results data records rows values entries elements nodes edges hits objects list resources "
    "issues pullrequests commits repositories projects users members messages channels files documents "
    "events tasks tickets contacts companies deals accounts customers orders products pages children "
    "content keys names result"
)
_BESIDE = frozenset(
    words("errors warnings links columns headers fields facets included aggregations suggestions notes")
)


_TEXT_CHARACTERS = 600
"""At the end of a text, and at its beginning, where it says how to go on."""
_GOES_ON = re.compile(r"\b(?:more|next|continu\w*|truncated|remaining|rest)\b|\bnext[_-]|[\"'`]next", re.I)
_NO_MARK = re.compile(r"none|null|argument|parameter|value|from|the|a|of|to|with", re.I)


class Unclear(Exception):
    """Raised when it can't be told which list is meant."""


def normal(name: str) -> str:
    """A name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def items_path(page: Any) -> tuple[str, ...] | None:
    """Where the items are: `()` if the page is a list itself; None if there is no list.

    Raises:
        Unclear: there are several, and none with a name that says so.
    """
    if isinstance(page, list):
        return ()
    beside: list[tuple[str, ...]] = []
    for level in _levels(page):
        lists = [((*path, key), value) for path, fields in level for key, value in fields if isinstance(value, list)]
        beside.extend(path for path, _ in lists if normal(path[-1]) in _BESIDE)
        lists = [(path, value) for path, value in lists if normal(path[-1]) not in _BESIDE]
        if lists:
            return _chosen(lists)
    return beside[0] if len(beside) == 1 else None


def at(page: Any, path: tuple[str, ...]) -> list[Any]:
    """The list at a path; nothing if a page has none there, as some say that they are empty."""
    for key in path:
        page = page.get(key) if isinstance(page, dict) else None
    return page if isinstance(page, list) else []


def next_mark(page: Any, sent: Iterable[Any]) -> tuple[bool, Any]:
    """Whether the page names where the next one is, and that; `(True, None)` if it says that there is none.

    `sent` are the values that asked for this page: those repeated are no news.
    """
    said = list(sent)
    for level in _levels(page):
        found = [(normal(key), value) for _, fields in level for key, value in fields]
        known = [(name, value) for name, value in found if name in _NEXT and _may_be_next(name, value, said)]
        if known:
            # A name with a value says more than another one without.
            _, value = min(known, key=lambda it: (it[1] in (None, "", False, 0), _NEXT.index(it[0])))
            if not isinstance(value, dict):
                return True, value or None
            for inner in _INSIDE_NEXT:
                for key, mark in value.items():
                    if normal(key) == inner and isinstance(mark, str | int):
                        return True, mark or None
    return False, None


def mark_in_text(text: str, parameter: str, *, is_number: bool, sent: Iterable[Any]) -> str | None:
    """The value of a parameter that gives the next page, where a text says so at its end or beginning.

    Like `Content truncated. Call fetch with a start_index of 5000 to get more content.` or `next_range: A101:D200`.
    """
    said = {str(value) for value in sent}
    name = "[_ -]?".join(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", parameter).lower()))
    value = r"\d{1,18}" if is_number else r"[^\s\"'`<>,;)}\]]{1,500}"
    pattern = rf"\b(?:next[_ -]?)?{name}[\"'`]?\s*(?:=|:|of|to|as|is)?\s*[\"'`]?({value})"
    for part in (text[-_TEXT_CHARACTERS:], text[:_TEXT_CHARACTERS]):
        for line in part.splitlines():
            if _GOES_ON.search(line):
                found: list[str] = [it.rstrip(".") for it in re.findall(pattern, line, re.I)]
                marks = [it for it in found if it and it not in said and not _NO_MARK.fullmatch(it)]
                if marks:
                    return marks[-1]
    return None


def says_more(page: Any) -> bool | None:
    """Whether the page says that there is another one; None if it says nothing."""
    for name, value in _marks(page):
        if isinstance(value, bool) and (name in _MORE or name in _LAST) and (name not in _OUTERMOST or name in page):
            return value if name in _MORE else not value
    return None


def total(page: Any) -> int | None:
    """The number of items of all pages, if the page says it."""
    return _number(page, _TOTAL)


def page_count(page: Any) -> int | None:
    return _number(page, _PAGES)


def current_page(page: Any) -> int | None:
    return _number(page, _CURRENT)


def query_of(mark: Any) -> dict[str, str] | None:
    """The parameters in a mark that is a URL, by their normal names; None for any other mark."""
    if not isinstance(mark, str) or not re.match(r"(https?:/)?/|[\w./-]*\?", mark):
        return None
    try:
        query = urllib.parse.urlsplit(mark).query
        return {normal(name): value for name, value in urllib.parse.parse_qsl(query)}
    except ValueError:  # `https://[x`
        return None


def _chosen(lists: list[tuple[tuple[str, ...], list[Any]]]) -> tuple[str, ...]:
    if len(lists) == 1:
        return lists[0][0]
    named = [path for path, _ in lists if normal(path[-1]) in _ITEMS]
    if named:
        return min(named, key=lambda path: _ITEMS.index(normal(path[-1])))
    of_objects = [path for path, value in lists if value and isinstance(value[0], dict)]
    if len(of_objects) != 1:
        raise Unclear(", ".join(".".join(path) for path, _ in lists[:10]))
    return of_objects[0]


def _may_be_next(name: str, value: Any, sent: list[Any]) -> bool:
    if isinstance(value, list) or (isinstance(value, bool) and value):
        return False
    if name in _ECHOES:
        return not isinstance(value, dict) and value not in sent and (name != "offset" or isinstance(value, str))
    return True


def _number(page: Any, names: frozenset[str]) -> int | None:
    for name, value in _marks(page):
        if name in names and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _marks(page: Any) -> Iterator[tuple[str, Any]]:
    for level in _levels(page):
        for _, fields in level:
            for key, value in fields:
                yield normal(key), value


def _levels(page: Any) -> Iterator[list[tuple[tuple[str, ...], list[tuple[str, Any]]]]]:
    """The objects of a page, level by level, each with the path to it."""
    level: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), page)] if isinstance(page, dict) else []
    for _ in range(_DEPTH):
        if not level:
            return
        yield [(path, list(fields.items())) for path, fields in level]
        inner = [((*path, k), v) for path, fields in level for k, v in fields.items() if isinstance(v, dict)]
        level = inner[:_WIDTH]
