"""What is searched: the public sets, tools of real servers, and the queries for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
class Query:
    text: str
    relevant: frozenset[str]
    """Ids of the right tools; none where no tool is right."""
    kind: str = ""
    id: str = ""
    """That of a public set's query."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Tools, and queries over them."""

    name: str
    catalog: Catalog
    ids: Mapping[tuple[str, str], str]
    """Server and tool as the catalog names them → the id in the corpus."""
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
        return Corpus(name, *_toolsets(), own_queries(_FILES[name]))
    folder = SHARED / "retrieval" / name
    if not folder.exists():
        raise Missing(f"no set {name} in {folder.parent}")
    queries = (
        Query(one["query"], frozenset(one["relevant"]), id=one["id"]) for one in _lines(folder / "queries.jsonl")
    )
    return Corpus(name, *_catalog(_lines(folder / "tools.jsonl")), tuple(queries))


def own_queries(file: str) -> tuple[Query, ...]:
    """Ours; `relevant` is a list of tools, or for several wants a list of such lists."""
    return tuple(
        Query(
            one["query"],
            frozenset(
                tool for want in one.get("relevant", []) for tool in (want if isinstance(want, list) else [want])
            ),
            one["kind"],
        )
        for one in _lines(HERE / file)
    )


@cache
def _toolsets() -> tuple[Catalog, Mapping[tuple[str, str], str]]:
    """The tools of 35 servers as they were listed; an id is `server.tool`, both names raw."""
    folder = SHARED / "toolsets"
    if not folder.exists():
        raise Missing(f"no toolsets in {folder}")
    return _catalog(tool for path in sorted(folder.glob("*.json")) for tool in _toolset(path))


def _toolset(path: Path) -> Iterator[dict[str, Any]]:
    listed = json.loads(path.read_text())
    key = dict(pair.split("=") for pair in _NAMES.split()).get(path.stem) or path.stem.rpartition("server-")[2]
    told = listed.get("initialize") or {}
    about = describe_server((told.get("serverInfo") or {}).get("description"), told.get("instructions"))
    for tool in listed["tools"]:
        more = {"id": f"{key}.{tool['name']}", "server": key, "server_description": about}
        yield {**tool, **more, "input_schema": tool.get("inputSchema")}


def _catalog(tools: Iterable[dict[str, Any]]) -> tuple[Catalog, Mapping[tuple[str, str], str]]:
    """The catalog that a product in front of these servers has, and the ids of its tools."""
    servers: dict[str, dict[str, dict[str, Any]]] = {}
    for tool in tools:
        servers.setdefault(tool["server"], {}).setdefault(tool["name"], tool)
    catalog = Catalog.build(
        UpstreamListing(
            server,
            UpstreamState.READY,
            tuple(
                ToolDefinition(
                    name, one.get("description") or "", one.get("title") or None, one.get("input_schema") or {}
                )
                for name, one in listed.items()
            ),
            next(iter(listed.values())).get("server_description") or "",
        )
        for server, listed in servers.items()
    )
    return catalog, {
        (tool.server, tool.name): servers[server.raw_name][tool.raw_name]["id"]
        for server in catalog.servers
        for tool in server.tools
    }


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        yield from map(json.loads, file)
