"""Finds permission rules whose tool no server lists: with a typing mistake in it, a `deny` refuses nothing."""

from __future__ import annotations

from collections.abc import Iterator

from codemode_server.catalog.catalog import Catalog
from codemode_server.catalog.nearest_names import mistyped_names
from codemode_server.gateway.policy.names import READ_METHOD, READ_RESOURCE, Spellings, fits
from codemode_server.permission_settings import PermissionRule, PermissionSettings

_GLOB_MARKS = frozenset("*?[")
_READING = Spellings(READ_METHOD, READ_RESOURCE)


def rules_without_tools(permissions: PermissionSettings, catalog: Catalog) -> Iterator[str]:
    """A warning for each rule that names a tool which its servers don't list.

    A glob may be a precaution for tools that come later, so it is reported only if it looks like a typing mistake.
    """
    for number, rule in enumerate(permissions.rules, start=1):
        if (found := _without_tool(rule, catalog)) is not None:
            yield f"permissions.rules[rule {number}].{rule.answer}: {found}"


def _without_tool(rule: PermissionRule, catalog: Catalog) -> str | None:
    server_glob, tool_glob = rule.globs
    if "/" in tool_glob or fits(_READING, tool_glob, is_wide=True):  # resources and prompts
        return None
    servers = [it for it in catalog.servers if fits(Spellings.of_server(it), server_glob, is_wide=True)]
    if not servers or not all(server.tools for server in servers):  # one of unknown tools may have it
        return None
    tools = [tool for server in servers for tool in server.tools]
    if any(fits(Spellings.of_tool(tool), tool_glob, is_wide=True) for tool in tools):
        return None
    meant = mistyped_names(tool_glob.strip("*"), (tool.raw_name for tool in tools))
    if not meant and not _GLOB_MARKS.isdisjoint(server_glob + tool_glob):
        return None
    place = servers[0].raw_name if len(servers) == 1 else "these servers"
    return f"matches no tool of {place}" + (f"; did you mean {meant[0]!r}?" if meant else "")
