"""What is searched: the public sets, tools of real servers, and the queries for them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from codemode_server.catalog.catalog import Catalog
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.upstreams.listings import describe_server

HERE = Path(__file__).parent
SHARED = next(
    (folder / "shared" for folder in HERE.parents[2:] if (folder / "shared" / "retrieval").exists()),
    HERE.parents[2] / "shared",
)
"""Beside the clone, or beside a folder that the clone is in, as a worktree may be."""
RETRIEVAL = SHARED / "retrieval"
TOOLSETS = SHARED / "toolsets"
PUBLIC = ("azure", "livemcp_task", "livemcp_step", "toolbench", "sealtools")
OWN = "own"
"""Queries as models write them, over the tools of 35 real servers."""
LATER = "later"
"""More of the same, written when the search was nearly done."""
EVERYDAY = "everyday"
"""Queries in everyday words, mostly none of the tool; the weights were chosen with both kinds in view."""
_FILES = {OWN: "queries.jsonl", LATER: "later.jsonl", EVERYDAY: "everyday.jsonl"}

_NAMES = """
    @antv__mcp-server-chart=chart @azure__mcp=azure @coo-quack__calc-mcp=calc @cyanheads__git-mcp-server=cyanheads-git
    @easecloudio__mcp-metabase-server=metabase @hubspot__mcp-server=hubspot @notionhq__notion-mcp-server=notion
    @playwright__mcp=playwright @postman__postman-mcp-server=postman @twilio-alpha__mcp=twilio
    awslabs-aws-dataprocessing-mcp-server=aws-dataprocessing awslabs-aws-documentation-mcp-server=aws-documentation
    awslabs-aws-pricing-mcp-server=aws-pricing awslabs-cloudwatch-mcp-server=cloudwatch
    awslabs-dynamodb-mcp-server=dynamodb awslabs-eks-mcp-server=eks awslabs-s3-tables-mcp-server=s3-tables
    chrome-devtools-mcp=chrome-devtools markitdown-mcp=markitdown mcp-atlassian=atlassian mcp-clickhouse=clickhouse
    office-powerpoint-mcp-server=powerpoint redis-mcp-server=redis
"""
"""File of a toolset → the key that people write in their configuration; where none, the end of the file's name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool of a corpus."""

    id: str
    server: str
    server_description: str
    name: str
    description: str
    input_schema: dict[str, Any]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    id: str
    text: str
    relevant: frozenset[str]
    """Ids of the right tools; none where no tool is right."""
    kind: str = ""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Tools, and queries over them."""

    name: str
    entries: tuple[Entry, ...]
    queries: tuple[Query, ...]


class Missing(Exception):
    """Raised when a corpus is not on this machine; the message says where it should be."""


@cache
def corpus(name: str) -> Corpus:
    """One of the public sets, or our own.

    Raises:
        Missing: it is not here.
    """
    if name in _FILES:
        return Corpus(name, toolsets(), own_queries(_FILES[name]))
    folder = RETRIEVAL / name
    if not folder.exists():
        raise Missing(f"no set {name} in {RETRIEVAL}")
    queries = (
        Query(one["id"], one["query"], frozenset(one["relevant"]), str(one.get("split", "")))
        for one in _lines(folder / "queries.jsonl")
    )
    return Corpus(name, _entries(folder), tuple(queries))


def own_queries(file: str) -> tuple[Query, ...]:
    """Ours; `relevant` is a list of tools, or for several wants a list of such lists."""
    return tuple(_own_query(number, one) for number, one in enumerate(_lines(HERE / file), 1))


def _own_query(number: int, one: dict[str, Any]) -> Query:
    relevant = one.get("relevant", [])
    flat = {tool for want in relevant for tool in (want if isinstance(want, list) else [want])}
    return Query(f"{OWN}-{number}", one["query"], frozenset(flat), one["kind"])


@cache
def toolsets() -> tuple[Entry, ...]:
    """The tools of 35 servers as they were listed; an id is `server.tool`, both names raw.

    Raises:
        Missing: they are not here.
    """
    if not TOOLSETS.exists():
        raise Missing(f"no toolsets in {TOOLSETS}")
    return tuple(itertools.chain.from_iterable(map(_toolset, sorted(TOOLSETS.glob("*.json")))))


def _toolset(path: Path) -> Iterator[Entry]:
    listed = json.loads(path.read_text())
    key = dict(pair.split("=") for pair in _NAMES.split()).get(path.stem) or path.stem.rpartition("server-")[2]
    told = listed.get("initialize") or {}
    about = describe_server((told.get("serverInfo") or {}).get("description"), told.get("instructions"))
    for tool in listed["tools"]:
        yield Entry(
            f"{key}.{tool['name']}",
            key,
            about,
            tool["name"],
            tool.get("description") or "",
            tool.get("inputSchema") or {},
            tool.get("title") or "",
        )


def _entries(folder: Path) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            one["id"],
            one["server"],
            one.get("server_description") or "",
            one["name"],
            one.get("description") or "",
            one.get("input_schema") or {},
        )
        for one in _lines(folder / "tools.jsonl")
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        yield from map(json.loads, file)


def catalog_of(entries: Iterable[Entry]) -> Catalog:
    """The catalog that a gateway in front of these servers has."""
    by_server: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        by_server.setdefault(entry.server, {}).setdefault(entry.name, entry)
    return Catalog.build(
        UpstreamListing(
            server,
            UpstreamState.READY,
            tuple(
                ToolDefinition(one.name, one.description, one.title or None, one.input_schema)
                for one in entries.values()
            ),
            next(iter(entries.values())).server_description,
        )
        for server, entries in by_server.items()
    )


def ids_of(catalog: Catalog, entries: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """Raw names of server and tool → the id in the corpus, of Python names too: (server, tool) of the catalog."""
    raw = {(entry.server, entry.name): entry.id for entry in entries}
    return {
        (tool.server, tool.name): raw[server.raw_name, tool.raw_name]
        for server in catalog.servers
        for tool in server.tools
    }
