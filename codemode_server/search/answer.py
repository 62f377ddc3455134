"""What `search_tools` says: which of the ranked things are shown, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.tree import availability, tool_line
from codemode_server.catalog.untrusted import one_line
from codemode_server.errors import MetaToolError, UnknownTool
from codemode_server.search.levels import Levels

DetailLevel = Literal["name_only", "with_description", "full"]
MOST_RESULTS = 100
_QUERY_CHARACTERS = 2_000


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
    levels: Levels,
    query: str,
    detail_level: str = "with_description",
    server: str | None = None,
    limit: int = 10,
) -> SearchResults:
    """The tools that fit a query best; without a query all of them, by name. The levels have indexed the catalog.

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
        within = f"servers/{only.name}" if only else None
        ranking = levels.rank(query[:_QUERY_CHARACTERS], limit, within=within)
        tools = [scored.thing for scored in ranking.found if isinstance(scored.thing, Tool)]
        note = "" if tools else _nothing(catalog, query, only)
    else:
        every = sorted(only.tools if only else catalog.tools(), key=lambda tool: (tool.server, tool.name))
        tools = every[:limit]
        note = f"{len(every) - len(tools)} more; list_dir lists them by server" if len(every) > len(tools) else ""
        note = note or ("" if tools else "there are no tools")
    return SearchResults(tuple(Found(tool, _mark(reasons[tool.server]), level) for tool in tools), note)


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
