"""Answers a call of a tool that the host was not offered: with the way to the tool that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool
from codemode_server.front.tools.registry import meta_tools
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.text import clean_line

_MAX_CHARACTERS = 200
_MAX_LISTED = 20
_MAX_IMPORTS = 3
_SEPARATOR = re.compile(r"__|[./:]|_")
_HOST_PREFIX = re.compile(r"mcp_{1,2}")


def unknown_tool(name: str, direct: Collection[str], catalog: Catalog, refusal_of: RefusalOf) -> str:
    """Message for a call of an unknown tool, with advice, in a line or two. `direct` are the direct tools that the host
    has."""
    name = name[:_MAX_CHARACTERS]
    head = f"There is no tool {clean_line(name, 100)!r}"
    offered = [*meta_tools(), *direct]
    bare = _HOST_PREFIX.sub("", name, count=1) if _HOST_PREFIX.match(name) else name
    if meant := next((it for it in offered if bare == it or _ends_with(bare, it)), None) or _alike(bare, offered):
        return f"{head}; did you mean {meant}?"
    call = "call it"
    if not (found := list(_tools(bare, catalog))):
        rest = next((rest for _, rest in _servers(bare, catalog)), bare)
        near = catalog.mistyped_tools(bare) or catalog.mistyped_tools(rest)
        found = [each for each in near if not refusal_of(*each)]
        if meant := next((it for _, tool in found for it in direct if it.endswith(f"__{tool.raw_name}")), None):
            return f"{head}; did you mean {meant}?"
        call = f"did you mean {found[0][1].name}? Call it" if found else ""
    if len(found) == 1 and (refusal := refusal_of(*found[0])):
        return refusal.message(f"{found[0][0].name}.{found[0][1].name}")
    if imports := [tool.import_line for server, tool in found[:_MAX_IMPORTS] if not refusal_of(server, tool)]:
        return f"{head}; {call} from a program in execute_code: {' or '.join(imports)}"
    listed = ", ".join(offered[:_MAX_LISTED]) + (", …" if len(offered) > _MAX_LISTED else "")
    return (
        f"{head}; there are {listed}. Other tools of the servers are called from a program in execute_code; "
        "search_tools finds them."
    )


def _alike(name: str, offered: Collection[str]) -> str | None:
    """A tool for a typing mistake in its last part; `git_search` is not short for `search_tools`."""
    found = similar_name(name, offered)
    return found if found and len(_parts(found)) == len(_parts(name)) else None


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[\W_]+", name) if part]


def _ends_with(name: str, offered: str) -> bool:
    """True if only the name of this server is before it (`codemode__execute_code`), or only that of its own server is
    left out (`read_graph` of `memory__read_graph`)."""
    before = name.removesuffix(offered)
    is_ours = before != name and "codemode" in before and not before[-1].isalnum()
    return is_ours or offered.endswith(f"__{name}")


def _tools(name: str, catalog: Catalog) -> Iterator[tuple[Server, Tool]]:
    """The tools that a name can mean: `server__tool` with any separator, else that of any server."""
    named = [(server, tool) for server, rest in _servers(name, catalog) if (tool := server.by_name.get(rest))]
    yield from named or ((server, tool) for server in catalog.servers if (tool := server.by_name.get(name)))


def _servers(name: str, catalog: Catalog) -> Iterator[tuple[Server, str]]:
    """Servers whose name comes first, the longest first, with what follows it."""
    for found in reversed(list(_SEPARATOR.finditer(name))):
        if server := catalog.by_name.get(name[: found.start()]):
            yield server, name[found.end() :].lstrip("_")
