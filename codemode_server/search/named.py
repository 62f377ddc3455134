"""The things that a query names outright: `create_issue`, `github.createIssue`, a path, `mcp__github__create_issue`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.naming import words
from codemode_server.search.documents import Collection, Findable

_BETWEEN = re.compile(r"__|[./:]")
_SPELLED = re.compile(r"[_./-]|[a-z][A-Z]")
_MOST_TOKENS = 40


class Names:
    """All names of things, however their words are put together."""

    def __init__(self, collections: Sequence[Collection]) -> None:
        self._things: dict[str, list[tuple[int, frozenset[str]]]] = {}
        number = 0
        for collection in collections:
            servers = frozenset(map(_plain, (*collection.name.split(), collection.key.partition("/")[2])))
            for thing in collection.things:
                for name in {_plain(name) for name in _names(thing)}:
                    self._things.setdefault(name, []).append((number, servers))
                number += 1

    def in_query(self, query: str) -> set[int]:
        """The numbers of the things that the query names; of several of a name, those of the server that is named,
        too."""
        whole = self._things.get(_plain(query), ()) if len(query) <= 200 else ()
        found = {number for number, _ in whole}
        for token in re.split(r"[\s,;]+", query)[:_MOST_TOKENS]:
            bare = token.strip("`'\"()[]<>:.?!").removesuffix("()").removesuffix(".py")
            if _SPELLED.search(bare):
                found |= self._spelled(bare)
        return found

    def _spelled(self, token: str) -> set[int]:
        parts = [part for part in _BETWEEN.split(token) if part]
        for first in range(min(len(parts), 6)):
            holders = self._things.get(_plain("_".join(parts[first:])))
            if holders and (first or len(parts) == 1 or len(words(token)) > 1):
                before = {_plain(part) for part in parts[:first]}
                there = {number for number, servers in holders if before & servers}
                return there or {number for number, _ in holders}
        return set()


def _names(thing: Findable) -> Iterator[str]:
    yield thing.name
    if isinstance(thing, Tool):
        yield thing.raw_name


def _plain(name: str) -> str:
    return "_".join(words(name[:200])).lower()
