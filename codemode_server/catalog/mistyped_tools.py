"""Finds the tools for whose names a name is a typing mistake, whichever server they are of."""

from __future__ import annotations

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.nearest_names import mistyped_names


def mistyped_tools(catalog: Catalog, name: str) -> list[tuple[Server, Tool]]:
    """A few at most, each with its server."""
    names = mistyped_names(name, (tool.name for tool in catalog.tools()))
    return [(server, server.by_name[near]) for near in names for server in catalog.servers if near in server.by_name]
