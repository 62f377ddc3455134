"""Finds servers that match a query but can't be called, so that the answer can name them."""

from __future__ import annotations

from collections.abc import Collection

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.naming import words
from codemode_server.domain.tools import UpstreamState
from codemode_server.search.words import stems

_MAX_NAMED = 3
_GENERAL = frozenset({"mcp", "server", "api"})
"""Words in a server's name that do not identify it."""


def unavailable_servers(catalog: Catalog, query: str, shown: Collection[str]) -> str:
    """A line with the reason for each such server; usually empty.

    `shown` are the servers of the results, which are marked there.
    """
    meant = [server for server in _meant(catalog, query) if server.name not in shown]
    return "\n".join(
        f"servers.{server.name} is configured but {server.availability or 'offers no tools'}"
        for server in meant[:_MAX_NAMED]
    )


def other_servers_down(catalog: Catalog, query: str) -> str:
    """A line on the servers that are down and whose tools are not known, so that any query could mean them, without
    those that `unavailable_servers` names; usually empty."""
    meant = _meant(catalog, query)[:_MAX_NAMED]
    down = [server for server in catalog.servers if server.is_down and not server.tools and server not in meant]
    if not down:
        return ""
    named = ", ".join(f"{server.name} ({server.cause or 'not connected'})" for server in down[:_MAX_NAMED])
    more = f" and {len(down) - _MAX_NAMED} more" if len(down) > _MAX_NAMED else ""
    their = "its" if len(down) == 1 else "their"
    return f"unavailable: {named}{more}: {their} tools can't be found or called; tell the user"


def _meant(catalog: Catalog, query: str) -> list[Server]:
    """The servers that can't be called and that the query means."""
    wanted = set(stems(query))
    return [server for server in catalog.servers if _has_nothing_to_call(server) and _is_meant(server, wanted)]


def _has_nothing_to_call(server: Server) -> bool:
    """True if the server can't be called; servers that are still connecting are named in every answer anyway."""
    return not server.is_available or (server.state is UpstreamState.READY and not server.tools)


def _is_meant(server: Server, wanted: set[str]) -> bool:
    """True if its name has a word of the query, or its description and the name of a known tool have all of them."""
    if wanted & (_stems_of_name(server.raw_name) - _GENERAL):
        return True
    described = set(stems(server.description))
    known = [_stems_of_name(name) for name in server.known_tools] or [set()]
    return bool(wanted) and any(wanted <= described | name for name in known)


def _stems_of_name(name: str) -> set[str]:
    return set(stems(" ".join(words(name))))
