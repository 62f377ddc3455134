"""Answers a call of a tool that the host was not offered: with the way to the tool that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool
from codemode_server.catalog.mistyped_tools import mistyped_tools
from codemode_server.domain.errors import UnknownTool
from codemode_server.front.tools.registry import meta_tools
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.text import clean_line

_MAX_CHARACTERS = 200
_MAX_LISTED = 20
_MAX_IMPORTS = 3
_SEPARATOR = re.compile(r"__|[./:]|_")
_HOST_PREFIX = re.compile(r"mcp_{1,2}")


def unknown_tool(name: str, direct: Collection[str], catalog: Catalog, refusal_of: RefusalOf) -> str:
    """What is wrong and what to do instead, in a line or two. `direct` are the direct tools that the host has."""
    name = name[:_MAX_CHARACTERS]
    head = f"There is no tool {clean_line(name, 100)!r}"
    offered = [*meta_tools(), *direct]
    bare = _HOST_PREFIX.sub("", name, count=1) if _HOST_PREFIX.match(name) else name
    meant = [it for it in offered if bare == it or _ends_with(bare, it)] or list(filter(None, [_alike(bare, offered)]))
    if meant:
        return f"{head}; did you mean {meant[0]}?"
    if found := list(_tools(bare, catalog))[:_MAX_IMPORTS]:
        refusals = [(server, tool, refusal_of(server, tool)) for server, tool in found]
        if len(found) == 1 and (refusal := refusals[0][2]):
            return refusal.message(f"{found[0][0].name}.{found[0][1].name}")
        lines = [tool.import_line for _, tool, refusal in refusals if not refusal]
        return f"{head}; call it from a program in execute_code: {' or '.join(lines or [found[0][1].import_line])}"
    near = [tool for server, tool in mistyped_tools(catalog, bare) if not refusal_of(server, tool)]
    if has_direct := [it for tool in near for it in direct if it.endswith(f"__{tool.raw_name}")]:
        return f"{head}; did you mean {has_direct[0]}?"
    if near:
        imports = " or ".join(tool.import_line for tool in near[:_MAX_IMPORTS])
        return f"{head}; did you mean {near[0].name}? Call it from a program in execute_code: {imports}"
    if problem := _wrong_tool(bare, catalog):
        return f"{head}: {problem}. Tools of servers are called from a program in execute_code."
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
    """Whether only the name of this server is before it (`codemode__execute_code`), or only that of its own server is
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


def _wrong_tool(name: str, catalog: Catalog) -> str:
    """What a server that is named says of the rest of the name."""
    for server, rest in _servers(name, catalog):
        try:
            server.tool(rest)
        except UnknownTool as error:
            return clean_line(str(error), 300)
    return ""
