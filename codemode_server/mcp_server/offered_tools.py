"""The list of tools that each session of a host has.

It stays the same for a whole session, since hosts put it before everything that they send to a model: its first request
fixes it, but for the annotations of our tools, which models don't read, and for servers that were never listed before.
Their tools are added to our descriptions until the first call of a tool, and their direct tools at any time.

Requests without a session (HTTP, protocol 2026-07-28) get the same list until the tools of the servers or the settings
change.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool
from codemode_server.domain.principals import Session
from codemode_server.mcp_server.product import Product
from codemode_server.mcp_server.tools.registry import annotations_of, definitions, meta_tools
from codemode_server.sandbox.guest.similar_names import similar_name
from codemode_server.support.text import clean_line, first_few

_MAX_SESSIONS = 256
"""Lists remembered; one is about 6 KB. A session that is forgotten gets the list as it is then."""
_MAX_NAME_CHARACTERS = 200
_MAX_LISTED = 20
_MAX_IMPORTS = 3
_HOST_PREFIX = re.compile(r"mcp_{1,2}")

Definitions = list[dict[str, Any]]


@dataclass(slots=True)
class _Offered:
    """The list of one session."""

    definitions: Definitions
    made_from: object
    unlisted: frozenset[str]
    """Raw names of servers that had no tools when it was made, or when some were added last."""
    is_fixed: bool = False
    """True once the session has called a tool."""


class OfferedTools:
    """The lists of one server's sessions."""

    def __init__(self, given: Definitions | None) -> None:
        """`given`: what every session is told, if that was fixed before the product was there."""
        self.given = given
        self._sessions: dict[str, _Offered] = {}

    def of(self, session: Session, product: Product) -> Definitions:
        """The answer to `tools/list`."""
        settings = product.config.settings
        made_from = (product.tools.current().version, settings) if session.is_ephemeral else None
        offered = self._sessions.pop(_key(session), None)
        if offered is None or offered.made_from != made_from:
            offered = self._new(made_from, product)
        self._sessions[_key(session)] = offered  # the latest last
        if len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        if offered.unlisted:
            self._add_listed(offered, product)
        ours = meta_tools()
        offered.definitions = [
            it | ({"annotations": annotations_of(spec, settings)} if (spec := ours.get(it["name"])) else {})
            for it in offered.definitions
        ]
        return offered.definitions

    def last(self, session: Session, product: Product) -> Definitions:
        """The list that the session was given last."""
        offered = self._sessions.get(_key(session))
        return definitions(product.config.settings) if offered is None else offered.definitions

    def fix(self, session: Session) -> None:
        """Descriptions of this session no longer change: its model has read them."""
        if (offered := self._sessions.get(_key(session))) is not None:
            offered.is_fixed = True

    def direct(self, session: Session, product: Product) -> dict[str, dict[str, Any]]:
        """The tools of servers in the list, by the names that the host has for them."""
        if (tools := product.tools.direct_tools) is None:
            return {}
        return {it["name"]: it for it in self.of(session, product) if tools.server_of(it) is not None}

    def _new(self, made_from: object, product: Product) -> _Offered:
        if self.given is None:
            return _Offered(product.tools.offered(), made_from, unlisted(product.tools.current()))
        return _Offered(self.given, made_from, product.tools.unlisted_at_start)

    def _add_listed(self, offered: _Offered, product: Product) -> None:
        """Add the tools of servers that were listed for the first time since the list was made. No other tool is added,
        changed or taken away, so that hosts can cache prompts."""
        still = unlisted(product.tools.current())
        if not (listed := offered.unlisted - still):
            return
        offered.unlisted &= still
        if not offered.is_fixed:
            fresh = {it["name"]: it for it in product.tools.offered() if it["name"] in meta_tools()}
            offered.definitions = [fresh.get(it["name"], it) for it in offered.definitions]
        if (tools := product.tools.direct_tools) is not None:
            names = {it["name"] for it in offered.definitions}
            added = [it for it in tools.definitions() if tools.server_of(it) in listed and it["name"] not in names]
            offered.definitions = [*offered.definitions, *added]


def unlisted(catalog: Catalog) -> frozenset[str]:
    """Raw names of the servers without tools so far."""
    return frozenset(it.raw_name for it in catalog.servers if not it.tools)


def _key(session: Session) -> str:
    return "" if session.is_ephemeral else session.session_id


def unknown_tool(name: str, direct: Collection[str], catalog: Catalog, refusal_of: RefusalOf) -> str:
    """Message for a call of an unknown tool, with advice, in a line or two. `direct` are the direct tools that the host
    has."""
    name = name[:_MAX_NAME_CHARACTERS]
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
    return (
        f"{head}; there are {first_few(offered, _MAX_LISTED)}. Other tools of the servers are called from a program "
        "in execute_code; search_tools finds them."
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
