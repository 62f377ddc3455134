"""A query → ranked tools, and what `search_tools` shows of them.

Rankers are exchangeable; `LexicalRanker` is BM25 over weighted fields. Field lengths are compared with constants, not
with the averages of the corpus: so the index of one server depends on no other, and a server that changes is the only
one that is indexed again. Only how rare a word is depends on all, and that is looked up when a query comes.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, get_args

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.naming import words
from codemode_server.catalog.tree import availability, tool_line
from codemode_server.catalog.untrusted import one_line
from codemode_server.errors import MetaToolError, UnknownTool

DetailLevel = Literal["name_only", "with_description", "full"]
MOST_RESULTS = 100
_QUERY_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Scored:
    """One tool that a ranker found."""

    tool: Tool
    score: float


class Ranker(Protocol):
    """Finds tools for a query; knows the catalog that it indexed last."""

    def index(self, catalog: Catalog) -> None:
        """Take in a snapshot; costs only what changed since the one before."""

    def rank(self, query: str, server: str | None, limit: int) -> Sequence[Scored]:
        """The best first; `server` is a Python name. Tools that have nothing to do with the query are left out."""


@dataclass(frozen=True, slots=True)
class Found:
    """One result of `search_tools`."""

    tool: Tool
    unavailable: str
    """Empty, or why a call would fail."""
    detail_level: DetailLevel

    @property
    def text(self) -> str:
        mark = f"  [{self.unavailable}]" if self.unavailable else ""
        match self.detail_level:
            case "name_only":
                return f"{self.tool.server}.{self.tool.name}{mark}"
            case "with_description":
                return f"{self.tool.import_line}{mark}\n  {self.tool.stub.signature}\n  {tool_line(self.tool)}".rstrip()
            case "full":
                return f"# {self.tool.path}{mark}\n{self.tool.stub.source}".rstrip("\n")

    def as_json(self) -> dict[str, Any]:
        """For programs that search for themselves."""
        record: dict[str, Any] = {"server": self.tool.server, "name": self.tool.name}
        if self.unavailable:
            record["unavailable"] = self.unavailable
        if self.detail_level != "name_only":
            record |= {
                "import": self.tool.import_line,
                "description": tool_line(self.tool),
                "signature": self.tool.stub.signature,
            }
        if self.detail_level == "full":
            record["source"] = self.tool.stub.source
        return record


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The answer to one `search_tools`."""

    results: tuple[Found, ...]
    note: str = ""
    """What to do next, where that is not plain."""

    @property
    def text(self) -> str:
        between = "\n" if all(found.detail_level == "name_only" for found in self.results) else "\n\n"
        found = between.join(result.text for result in self.results)
        return "\n".join(part for part in (found, self.note) if part)

    def as_json(self) -> list[dict[str, Any]]:
        return [found.as_json() for found in self.results]


def search_tools(
    catalog: Catalog,
    ranker: Ranker,
    query: str,
    detail_level: str = "with_description",
    server: str | None = None,
    limit: int = 10,
) -> SearchResults:
    """The tools that fit a query best; without a query all of them, by name. The ranker has indexed the catalog.

    Raises:
        MetaToolError: an argument is not what it may be.
    """
    level = _level(detail_level)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_RESULTS:
        raise MetaToolError(f"limit is a number from 1 to {MOST_RESULTS}")
    try:
        only = catalog.server(server) if server else None
    except UnknownTool as error:
        raise MetaToolError(str(error)) from error
    reasons = {one.name: availability(one) for one in catalog.servers}
    if query.strip():
        tools = [scored.tool for scored in ranker.rank(query[:_QUERY_CHARACTERS], only.name if only else None, limit)]
        note = "" if tools else _nothing(catalog, query, only)
    else:
        every = sorted(only.tools if only else catalog.tools(), key=lambda tool: (tool.server, tool.name))
        tools = every[:limit]
        note = f"{len(every) - len(tools)} more; list_dir lists them by server" if len(every) > len(tools) else ""
        note = note or ("" if tools else "there are no tools")
    return SearchResults(tuple(Found(tool, _mark(reasons[tool.server]), level) for tool in tools), note)


class LexicalRanker:
    """BM25 over the words of names, titles, descriptions and parameters, as written and by their stems."""

    def __init__(self) -> None:
        self._index = _Index({}, {}, 0)

    def index(self, catalog: Catalog) -> None:
        old = self._index
        segments = {
            server.name: known if (known := old.segments.get(server.name)) and known.takes(server) else _Segment(server)
            for server in catalog.servers
        }
        gone = {segment for name, segment in old.segments.items() if segments.get(name) is not segment}
        new = [segment for name, segment in segments.items() if old.segments.get(name) is not segment]
        holders = dict(old.holders)
        for term in {term for segment in gone for term in segment.postings}:
            holders[term] = [segment for segment in holders[term] if segment not in gone]
        for segment in new:
            for term in segment.postings:
                holders[term] = [*holders.get(term, ()), segment]
        self._index = _Index(segments, holders, sum(len(segment.tools) for segment in segments.values()))

    def rank(self, query: str, server: str | None, limit: int) -> Sequence[Scored]:
        index = self._index  # one snapshot, should another thread index meanwhile
        only = index.segments.get(server) if server else None
        scores: dict[_Segment, list[float]] = {}
        for term, weight in _query_terms(query).items():
            holders = index.holders.get(term, ())
            having = sum(len(segment.postings[term]) for segment in holders)
            rarity = weight * math.log(1 + (index.total - having + 0.5) / (having + 0.5))
            for segment in holders:
                if server is None or segment is only:
                    sums = scores.setdefault(segment, [0.0] * len(segment.tools))
                    for number, impact in segment.postings[term]:
                        sums[number] += rarity * impact
        found = (
            (-score, segment, number) for segment, sums in scores.items() for number, score in enumerate(sums) if score
        )
        best = heapq.nsmallest(limit, found, key=lambda one: (one[0], one[1].server, one[1].tools[one[2]].name))
        return [Scored(segment.tools[number], -negated) for negated, segment, number in best]


_K1, _B = 1.5, 0.7
_EXACT_WEIGHT = 0.75
"""Of a word as written, beside its stem."""
_NESTED = 2
"""Levels of properties below the parameters that are read."""
_DESCRIPTION_CHARACTERS = 4_000
_PARAMETER_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class _FieldKind:
    weight: float
    usual_length: float
    """Words, about what 1,469 tools of 35 servers have in the middle."""


_NAME = _FieldKind(5.0, 4.0)
_SERVER = _FieldKind(2.0, 5.0)
_DESCRIPTION = _FieldKind(1.0, 25.0)
_PARAMETERS = _FieldKind(0.5, 12.0)
_PARAMETER_NOTES = _FieldKind(0.25, 60.0)


class _Segment:
    """The index of one server: term → (number of the tool, how much the term counts for it)."""

    def __init__(self, server: Server) -> None:
        self.server = server.name
        self.tools = server.tools
        self.postings: dict[str, list[tuple[int, float]]] = {}
        named = list(_terms(f"{server.raw_name} {server.name}"))
        for number, tool in enumerate(server.tools):
            for term, frequency in _weighted(tool, named).items():
                self.postings.setdefault(term, []).append((number, frequency / (_K1 + frequency)))

    def takes(self, server: Server) -> bool:
        """Whether it still is the index of this server; if so, it has the server's tools from now on.

        They may be new objects, since something was observed of them; what is indexed comes from their definitions,
        which are taken over by identity when they did not change.
        """
        if len(self.tools) != len(server.tools) or not all(map(_is_same, self.tools, server.tools)):
            return False
        self.tools = server.tools
        return True


@dataclass(frozen=True, slots=True)
class _Index:
    segments: dict[str, _Segment]
    holders: dict[str, list[_Segment]]
    """Which segments have a term at all."""
    total: int


def _is_same(one: Tool, other: Tool) -> bool:
    return one is other or (one.definition is other.definition and one.name == other.name)


def _weighted(tool: Tool, named: list[str]) -> dict[str, float]:
    """How often each term occurs, by the weight of the field and its length."""
    definition = tool.definition
    names, notes = _parameter_texts(definition.input_schema)
    fields = (
        (_NAME, list(_terms(definition.name))),
        (_SERVER, [*named, *_terms(definition.title or "")]),
        (_DESCRIPTION, list(_terms(definition.description[:_DESCRIPTION_CHARACTERS]))),
        (_PARAMETERS, list(_terms(" ".join(names)))),
        (_PARAMETER_NOTES, list(_terms(" ".join(notes)[:_PARAMETER_CHARACTERS]))),
    )
    frequencies: dict[str, float] = {}
    for kind, terms in fields:
        if terms:
            share = kind.weight / (1 - _B + _B * len(terms) / (2 * kind.usual_length))
            for term in terms:
                frequencies[term] = frequencies.get(term, 0.0) + share
    return frequencies


def _parameter_texts(schema: object) -> tuple[list[str], list[str]]:
    """Names and descriptions of the parameters and of what is in them."""
    names: list[str] = []
    notes: list[str] = []
    level = [schema]
    for _ in range(1 + _NESTED):
        inner: list[object] = []
        for one in level[:200]:
            properties = one.get("properties") if isinstance(one, dict) else None
            for name, schema in properties.items() if isinstance(properties, dict) else ():
                names.append(str(name)[:100])
                if isinstance(schema, dict):
                    notes += [text[:600] for text in _notes(schema)]
                    inner += [schema, schema.get("items")]
        level = inner
    return names[:400], notes[:400]


def _notes(schema: dict[str, Any]) -> Iterator[str]:
    description, values = schema.get("description"), schema.get("enum")
    if isinstance(description, str):
        yield description
    if isinstance(values, list):
        yield " ".join(value for value in values[:30] if isinstance(value, str))


def _query_terms(query: str) -> dict[str, float]:
    counts: dict[str, int] = {}
    for term in _terms(query):
        counts[term] = counts.get(term, 0) + 1
    return {
        term: (_EXACT_WEIGHT if term[0] == "=" else 1.0) * (1 + math.log(min(number, 3)))
        for term, number in counts.items()
    }


def _terms(text: str) -> Iterator[str]:
    """The terms of a text: of each word its stem, and behind `=` the word as written."""
    for chunk in text.split():
        yield from _chunk_terms(chunk[:100])


@lru_cache(maxsize=50_000)
def _chunk_terms(chunk: str) -> tuple[str, ...]:
    found: list[str] = []
    for word in words(chunk):
        for part in _bigrams(word.lower()) if not word.isascii() else (word.lower(),):
            if part not in _STOP_WORDS:
                found += [_stem(part), f"={part}"]
    return tuple(found)


def _bigrams(word: str) -> Iterable[str]:
    """A script without spaces in pairs of letters; any other word as it is."""
    if not _UNSPACED.search(word) or len(word) < 3:
        return (word,)
    return (word[start : start + 2] for start in range(len(word) - 1))


_UNSPACED = re.compile(r"[぀-ヿ㐀-䶿一-鿿가-힯豈-﫿]")


def _stem(word: str) -> str:
    """The word without its commonest endings, so that `listing`, `listed` and `lists` meet `list`."""
    if len(word) <= 3 or not word.isascii() or word.isdigit():
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word[-1] == "e" else word


_ENDINGS = (
    ("ations", "ate"),
    ("ation", "ate"),
    ("ments", ""),
    ("ment", ""),
    ("ings", ""),
    ("ing", ""),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ies", "y"),
    ("ied", "y"),
    ("xes", "x"),
    ("ers", "er"),
    ("ed", ""),
    ("ly", ""),
    ("ss", "ss"),
    ("us", "us"),
    ("is", "is"),
    ("s", ""),
)

_STOPPED = """
    a about all also am an and any are as at be been but by can could did do does for from had has have how i if in into
    is it its let like me my need of on or our please so some that the their them then there these they this to us use
    used using want was we what when where which who will with would you your
"""
_STOP_WORDS = frozenset(_STOPPED.split())


def _level(detail_level: str) -> DetailLevel:
    for level in get_args(DetailLevel):
        if detail_level == level:
            found: DetailLevel = level
            return found
    allowed = ", ".join(f'"{level}"' for level in get_args(DetailLevel))
    raise MetaToolError(f'detail_level is one of {allowed}, not "{one_line(str(detail_level), 40)}"')


def _mark(reason: str) -> str:
    return "" if reason == "connecting" else reason


def _nothing(catalog: Catalog, query: str, only: Server | None) -> str:
    said = f'nothing found for "{one_line(query, 80)}"'
    if only is not None:
        return f'{said} in {only.name}; list_dir("/servers/{only.name}") lists its tools'
    if not catalog.servers:
        return f"{said}: no server is configured"
    names = [server.name for server in catalog.servers]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"{said}; servers: {', '.join(names[:20])}{more}"
