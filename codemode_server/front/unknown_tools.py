"""Answers a call of a tool that the host was not offered: with the way to the tool that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool
from codemode_server.front.tools.registry import meta_tools
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.text import clean_line

_MAX_CHARACTERS = 200
_MAX_LISTED = 20
_MAX_IMPORTS = 3
_HOST_PREFIX = re.compile(r"mcp_{1,2}")


def unknown_tool(name: str, direct: Collection[str], catalog: Catalog, refusal_of: RefusalOf) -> str:
    """Message for a call of an unknown tool, with advice, in a line or two. `direct` are the direct tools that the host
    has."""
    name = name[:_MAX_CHARACTERS]
    head = f"There is no tool {clean_line(name, 100)!r}"
    offered = [*meta_tools(), *direct]
    bare = _HOST_PREFIX.sub("", name, count=1) if _HOST_PREFIX.match(name) else name
    meant = next((it for it in offered if bare == it or _ends_with(bare, it)), None)
    found = [] if meant else _tools(bare, catalog)
    if meant := meant or (None if found else similar_name(bare, offered)):
        return f"{head}; did you mean {meant}?"
    if len(found) == 1 and (refusal := refusal_of(*found[0])):
        return refusal.message(f"{found[0][0].name}.{found[0][1].name}")
    if imports := [tool.import_line for server, tool in found[:_MAX_IMPORTS] if not refusal_of(server, tool)]:
        return f"{head}; call it from a program in execute_code: {' or '.join(imports)}"
    listed = ", ".join(offered[:_MAX_LISTED]) + (", …" if len(offered) > _MAX_LISTED else "")
    return (
        f"{head}; there are {listed}. Other tools of the servers are called from a program in execute_code; "
        "search_tools finds them."
    )


def _ends_with(name: str, offered: str) -> bool:
    """True if only the name of this server is before it (`codemode__execute_code`), or only that of its own server is
    left out (`read_graph` of `memory__read_graph`)."""
    before = name.removesuffix(offered)
    is_ours = before != name and "codemode" in before and not before[-1].isalnum()
    return is_ours or offered.endswith(f"__{name}")


def _tools(name: str, catalog: Catalog) -> list[tuple[Server, Tool]]:
    """The tools that a name can mean: `server__tool` with any separator, else that of any server."""
    for server in sorted(catalog.servers, key=lambda it: -len(it.name)):
        rest = name.removeprefix(server.name)
        if rest != name and (tool := server.by_name.get(rest.lstrip("_./:"))):
            return [(server, tool)]
    return [(server, tool) for server in catalog.servers if (tool := server.by_name.get(name))]
