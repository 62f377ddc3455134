"""Servers that a query means and that have no tool to call: named in the answer, since no result does it."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.naming import words
from codemode_server.domain.tools import UpstreamState
from codemode_server.search.words import stems

_MAX_NAMED = 3
_GENERAL = frozenset({"mcp", "server", "api"})
"""Words in a server's name by which nobody means it."""


def unavailable_servers(catalog: Catalog, query: str, shown: Collection[str]) -> str:
    """A line for each such server that the query names or describes, with the reason; mostly empty.

    `shown` are the servers whose tools are in the results: those say it themselves.
    """
    wanted = set(stems(query))
    found = (
        server
        for server in catalog.servers
        if _has_nothing_to_call(server) and server.name not in shown and _is_meant(server, wanted)
    )
    return "\n".join(
        f"servers.{server.name} is configured but {server.availability or 'offers no tools'}"
        for server in islice(found, _MAX_NAMED)
    )


def _has_nothing_to_call(server: Server) -> bool:
    """Servers that are still connecting are named in every answer anyway."""
    return not server.is_available or (server.state is UpstreamState.READY and not server.tools)


def _is_meant(server: Server, wanted: set[str]) -> bool:
    """Whether a word of the query is in its name, or all of them are in what is known of one of its tools."""
    if wanted & (_stems_of_name(server.raw_name) - _GENERAL):
        return True
    described = set(stems(server.description))
    known = [_stems_of_name(name) for name in server.known_tools] or [set()]
    return bool(wanted) and any(wanted <= described | name for name in known)


def _stems_of_name(name: str) -> set[str]:
    return set(stems(" ".join(words(name))))
