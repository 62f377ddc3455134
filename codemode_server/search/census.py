"""Recognizes queries that ask for everything, as `list all tools` or `*`: such a query names no task to rank by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.search.documents import Findable
from codemode_server.search.words import stems
from codemode_server.support.text import counted, first_few

_EVERYTHING = frozenset(stems("tool everything anything"))
_KINDS = frozenset(
    stems("action api available capability catalog command connect feature function help install integration inventory")
    + stems("mcp method operation overview server service skill")
)
"""Words for tools and servers, unless the name of a tool has them: `list all servers` may mean a tool of a cloud."""
_LISTING = frozenset(
    stems("count describe display each enumerate every exist find get give know list many name offer print provide")
    + stems("search see show support tell use")
)
_ALL = re.compile(r"\b(?:all|any|each|every|which|what)\b", re.IGNORECASE)
_OF_ONE = re.compile(r"\*|\bwhat\b.*\b(?:do|does|offers?|provides?|supports?)\b", re.IGNORECASE)
_MAX_SERVERS = 40


def asks_for_everything(catalog: Catalog, query: str) -> Server | bool:
    """True if a query asks for all tools; the server if it asks for all tools of one."""
    asked = set(stems(query))
    if not asked:
        return True
    names = {it: set(stems(it.raw_name)) for it in catalog.servers if it.tools}
    named = [it for it, own in names.items() if own and own <= asked]
    server = max(named, key=lambda it: len(it.raw_name), default=None)
    asked -= (names[server] if server else set()) - _EVERYTHING
    tools = [tool for it in catalog.servers for tool in it.tools]
    if not asked <= _EVERYTHING | _KINDS | _LISTING or any(query in (it.name, it.raw_name) for it in tools):
        return False
    if (kinds := asked & _KINDS) and any(kinds & set(stems(it.raw_name)) for it in tools):
        return False
    is_general = bool(asked & (_EVERYTHING | _KINDS))
    if server is not None:
        return server if is_general or _OF_ONE.search(query) else False
    return is_general or bool(_ALL.search(query))


def census(things: Iterable[Findable]) -> str:
    """`30 tools on 2 servers: git 12, slack 18`, and the number of the skills."""
    found = Counter(thing.server if isinstance(thing, Tool) else "" for thing in things)
    skills = found.pop("", 0)
    where = first_few([f"{name} {count:,}" for name, count in found.items()], _MAX_SERVERS)
    text = f"{counted(found.total(), 'tool')} on {counted(len(found), 'server')}: {where}" if found else ""
    return "; ".join(part for part in (text, counted(skills, "skill") if skills else "") if part)
