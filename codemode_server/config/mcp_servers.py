"""Reads `mcpServers`, in the form of any host, as servers of our own file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codemode_server.config import checking
from codemode_server.config.document import EMPTY, Node, plain_data
from codemode_server.config.host_entries import server_name, translated
from codemode_server.config.host_reading import restrict_by_file
from codemode_server.config.problems import Problems, joined, nearest, printable
from codemode_server.config.settings import Settings


def with_mcp_servers(
    tree: Node, problems: Problems, warnings: list[str], variables: Mapping[str, str], *, is_json: bool
) -> tuple[Node, frozenset[str]]:
    """The tree with all servers under `servers`, and the names of those that were under `mcpServers`. In JSON, other
    keys that are not ours are the host's, and what they switch off stays off."""
    members = dict(tree.entries)
    theirs, servers = members.pop("mcpServers"), dict(members.get("servers", EMPTY).entries)
    if not isinstance(theirs.value, dict | None):
        problems.add(theirs.line, theirs.where, "must be a mapping of names to servers")
    if is_json:
        members = _without_foreign(members, problems, warnings)
    names: set[str] = set()
    whole = plain_data(tree)
    for name_there, entry in theirs.entries.items():
        name = server_name(name_there)
        problems.entries[entry.where] = name
        names.add(name)
        if not isinstance(entry.value, dict):
            problems.add(entry.line, entry.where, "must be a mapping of settings")
            continue
        result = translated(plain_data(entry), "any", variables)
        if is_json:
            restrict_by_file(name_there, result, whole)
        notes = [*result.warnings, *([((), f"is called {name!r} here")] if name != name_there else [])]
        if result.left_out:
            notes, result.problems = [((), f"ignored: it {result.left_out}")], []
        for path, message in result.problems:
            at = checking.find(entry, path)
            problems.add(at.line, at.where, message)
        for path, message in notes:
            at = checking.find(entry, path)
            warnings.append(f"{problems.name}:{at.line}: {at.where}: {message}")
        if result.left_out:
            continue
        if name in servers:
            problems.add(entry.line, entry.where, f"there are two servers {name!r}; rename one")
        servers[name] = _node(result.members, entry, entry.where)
    section = members.get("servers", theirs)
    return tree.with_value({**members, "servers": Node(servers, section.line, "servers")}), frozenset(names)


def _node(value: Any, origin: Node, where: str) -> Node:
    """A node of this value, with the lines of what it was made of."""
    if isinstance(value, dict):
        inner = {key: _node(it, origin.entries.get(key, origin), joined(where, key)) for key, it in value.items()}
        return Node(inner, origin.line, where)
    if isinstance(value, list):
        origins = dict(enumerate(origin.value)) if isinstance(origin.value, list) else {}
        items = [_node(it, origins.get(at, origin), joined(where, at)) for at, it in enumerate(value)]
        return Node(items, origin.line, where)
    if value == origin.value:
        return Node(value, origin.line, where, origin.text)
    return Node(value, origin.line, where, str(value).lower() if isinstance(value, bool) else str(value))


def _without_foreign(members: dict[str, Node], problems: Problems, warnings: list[str]) -> dict[str, Node]:
    ours = {key: node for key, node in members.items() if nearest(key, Settings.model_fields, cutoff=0.8)}
    if others := [key for key in members if key not in ours]:
        names = ", ".join(repr(printable(key)) for key in others[:8]) + (" …" if len(others) > 8 else "")
        warnings.append(f"{problems.name}: ignored, settings of other programs: {names}")
    return ours
