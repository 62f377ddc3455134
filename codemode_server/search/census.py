"""Recognizes queries that ask for everything, as `list all tools`, `*` or `what can github do`, and counts it.

Such a query names no task, so ranking it would show tools at random.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.search.documents import Findable
from codemode_server.search.words import stems
from codemode_server.text import counted, first_few

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
_WHAT_IT_DOES = re.compile(r"\bwhat\b.*\b(?:do|does|offers?|provides?|supports?)\b", re.IGNORECASE)
_MAX_SERVERS = 40


def asks_for_everything(catalog: Catalog, query: str) -> Server | bool:
    """True if a query asks for all tools; the server if it asks for all tools of one."""
    asked = set(stems(query))
    if not asked:
        return True
    named = [(it, own) for it in catalog.servers if it.tools and (own := {*stems(it.raw_name)}) and own <= asked]
    server, own = max(named, key=lambda each: len(each[1]), default=(None, set[str]()))
    asked -= own - _EVERYTHING
    kinds = asked & _KINDS
    if not asked <= _EVERYTHING | _KINDS | _LISTING:
        return False
    tools = [tool for it in catalog.servers for tool in it.tools]
    if any(query in (tool.name, tool.raw_name) or (kinds and kinds & {*stems(tool.raw_name)}) for tool in tools):
        return False
    if server is not None:
        is_asked = bool(asked & (_EVERYTHING | _KINDS)) or "*" in query or _WHAT_IT_DOES.search(query)
        return server if is_asked else False
    return bool(asked & (_EVERYTHING | _KINDS) or _ALL.search(query))


def census(things: Iterable[Findable]) -> str:
    """`30 tools on 2 servers: git 12, slack 18`, and the number of the skills."""
    tools = Counter(thing.server for thing in things if isinstance(thing, Tool))
    skills = sum(not isinstance(thing, Tool) for thing in things)
    where = first_few([f"{name} {count:,}" for name, count in tools.items()], _MAX_SERVERS)
    text = f"{counted(tools.total(), 'tool')} on {counted(len(tools), 'server')}: {where}" if tools else ""
    return "; ".join(part for part in (text, counted(skills, "skill") if skills else "") if part)
