"""Finds the servers in a configuration file of any supported host, by content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codemode_server.config.document import EMPTY, Node
from codemode_server.config.host_entries import Host, Translation, server_name
from codemode_server.config.problems import joined, nearest, printable
from codemode_server.config.restrictions import glob_covering, strip_server_prefix
from codemode_server.settings import Settings

_HOST_KEYS: dict[str, Host] = {
    "mcp_servers": "codex",
    "context_servers": "zed",
    "extensions": "goose",
    "amp.mcpServers": "any",
    "mcp": "opencode",
}
"""Keys under which single hosts have their servers."""
_KEYS_OF_HOST: dict[Host, frozenset[str]] = {
    "opencode": frozenset({"permission", "server", "tools"}),
    "zed": frozenset({"search"}),
}
"""Host keys that resemble our sections. In a file of Codex, all keys are its own."""
_GEMINI_ENTRY = frozenset({"httpUrl", "trust", "targetAudience", "targetServiceAccount", "authProviderType"})
_GEMINI_FILE = frozenset({"mcp", "security", "selectedAuthType", "general", "ui"})
"""Keys that only Gemini CLI and Qwen Code write. There a `url` without a `type` is SSE, and `$NAME` is a variable."""


@dataclass(frozen=True, slots=True)
class _Section:
    """Servers under one key of the file."""

    key: str
    node: Node
    host: Host | None
    """Whose form they have; none for ours."""


@dataclass(frozen=True, slots=True)
class _SwitchedOff:
    """What a host's file disables outside the entries of its servers."""

    servers: frozenset[str]
    """Names, case-folded."""
    only: frozenset[str] | None
    """The only enabled servers, case-folded; None for all."""
    tools: tuple[tuple[str, str], ...]
    """Patterns over `<server>_<tool>`, each with `deny` or `ask`."""
    names: tuple[str, ...]
    """Patterns of disabled tool names, for any server."""


def in_our_form(tree: Node, translation: Translation, *, is_host_file: bool) -> Node:
    """The tree with all servers under `servers`, in our form.

    JSON and TOML (`is_host_file`) are taken to be hosts' own, so keys in them that are not ours are theirs; so is
    `mcpServers` anywhere.
    """
    members = {key: node for key, node in tree.entries.items() if not key.startswith("x-") and key != "$schema"}
    problems = translation.problems
    sections = list(_sections(members, is_host_file=is_host_file))
    switched_off = _switched_off(members, sections, translation)
    servers: dict[str, Node] = {}
    for section in sections:
        for name, entry in _entries(section, translation):
            legal = name if section.host is None else server_name(name)
            problems.entries[entry.where] = legal
            if section.host is not None:
                translated = translation.entry(legal, entry, section.host)
                if translated is None:
                    continue
                if legal != name:
                    translation.warn(entry, f"is called {legal!r} here")
                entry = _restricted(name, legal, translated, switched_off, translation)
            if legal in servers:
                problems.add(entry.line, entry.where, f"there are two servers {legal!r}; rename one")
            servers[legal] = entry
    left = _own_members(members, sections, translation, is_host_file=is_host_file)
    if is_host_file and members and not left and not {"servers", "mcpServers", *_HOST_KEYS} & members.keys():
        problems.add(0, "", f"holds no servers; they are looked for under servers, mcpServers, {', '.join(_HOST_KEYS)}")
    if servers:
        left["servers"] = Node(dict(servers), sections[0].node.line, "servers")
    return tree.with_value(_with_rules(left, translation.rules))


def _sections(members: dict[str, Node], *, is_host_file: bool) -> Iterator[_Section]:
    for key, node in members.items():
        if node.value is None:
            continue
        if key == "servers":
            yield _Section(key, node, "any" if is_host_file else None)
        elif key == "mcpServers":
            is_gemini = any(_GEMINI_ENTRY & entry.entries.keys() for entry in node.entries.values())
            yield _Section(key, node, "gemini" if is_gemini or _GEMINI_FILE & members.keys() else "any")
        elif key == "mcp":
            if "mcpServers" not in members:  # else these are Gemini's settings
                inner = node.entries.get("servers")
                is_inner = inner is not None and not {"command", "url"} & inner.entries.keys()
                yield _Section(key, inner if inner is not None and is_inner else node, "opencode")
        elif key in _HOST_KEYS:
            yield _Section(key, node, _HOST_KEYS[key])


def _entries(section: _Section, translation: Translation) -> Iterator[tuple[str, Node]]:
    if isinstance(section.node.value, dict):
        for name, entry in section.node.entries.items():
            if section.key != "mcp" or isinstance(entry.value, dict):
                yield name, entry
    elif section.key == "mcpServers" and isinstance(section.node.value, list):  # Continue
        for index, entry in enumerate(section.node.value):
            named = entry.entries.get("name")
            rest = {key: node for key, node in entry.entries.items() if key != "name"}
            yield named.text if named else f"server-{index + 1}", entry.with_value(rest)
    elif section.key != "servers":  # whose kind is checked with all settings
        node = section.node
        translation.problems.add(node.line, node.where, "must be a mapping of names to servers")


def _switched_off(members: dict[str, Node], sections: list[_Section], translation: Translation) -> _SwitchedOff:
    keys = {section.key for section in sections}
    servers: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    tools: list[tuple[str, str]] = []
    settings = members["mcp"].entries if "mcp" in members and "mcp" not in keys else {}
    for excluded in (settings.get("excluded"), members.get("excludeMCPServers")):
        servers |= _names(excluded, translation) or frozenset()
    for allowed in (settings.get("allowed"), members.get("allowMCPServers")):
        if (names := _names(allowed, translation)) is not None:
            only = names if only is None else only & names
    general = members.get("tools", EMPTY).entries
    if any(section.host is not None for section in sections) and "exclude" not in general:
        tools += [(pattern, "deny") for pattern, node in general.items() if node.value is not True]
    if "mcp" in keys and "permission" in members:
        tools += _permissions(members["permission"])
    lists = (general.get("exclude"), members.get("excludeTools"), members.get("amp.tools.disable"))
    return _SwitchedOff(servers, only, tuple(tools), tuple(_tool_names(lists, translation)))


def _permissions(node: Node) -> Iterator[tuple[str, str]]:
    """What opencode's `permission` does not allow; what is not understood in it is denied."""
    for pattern, rule in node.entries.items() if isinstance(node.value, dict) else [("*", node)]:
        answers = {child.value for child in rule.entries.values()} if isinstance(rule.value, dict) else {rule.value}
        if answers - {"allow"}:
            yield pattern, "ask" if answers <= {"allow", "ask"} else "deny"


def _tool_names(lists: Iterable[Node | None], translation: Translation) -> Iterator[str]:
    """Names of tools that Gemini CLI (`run(args)` counts as `run`) and Amp switch off for all servers."""
    for node in lists:
        if node is None or node.value is None:
            continue
        if not isinstance(node.value, list):
            translation.problems.add(node.line, node.where, "must be a list of names of tools")
            continue
        yield from (re.sub(r"\(.*\)$", "", item.text) for item in node.value if not item.text.startswith("builtin:"))


def _names(node: Node | None, translation: Translation) -> frozenset[str] | None:
    if node is None or node.value is None:
        return None
    if not isinstance(node.value, list):
        translation.problems.add(node.line, node.where, "must be a list of names of servers")
        return None
    return frozenset(item.text.casefold() for item in node.value)


def _restricted(name: str, legal: str, entry: Node, off: _SwitchedOff, translation: Translation) -> Node:
    """The entry restricted by what the rest of the file disables."""
    members = dict(entry.entries)
    if name.casefold() in off.servers or (off.only is not None and name.casefold() not in off.only):
        members["enabled"] = Node(False, entry.line, entry.where, "false")
    prefix = re.sub(r"[^A-Za-z0-9_-]", "_", name) + "_"
    excluded: list[Node] = []
    for pattern, answer in off.tools:
        for rest in strip_server_prefix(pattern, prefix):
            glob = glob_covering(rest).replace("_", "?")  # opencode replaces non-word characters in tool names with `_`
            if answer == "deny":
                excluded.append(Node(glob, entry.line, entry.where, glob))
            else:
                translation.rules.append({"ask": f"{legal}/{glob}", "reason": "The host asks before this tool."})
    excluded += [Node(glob, entry.line, entry.where, glob) for glob in map(glob_covering, off.names)]
    if excluded:
        tools = members.get("tools", Node({}, entry.line, joined(entry.where, "tools")))
        before = tools.entries["exclude"].value if "exclude" in tools.entries else []
        both = [*(before if isinstance(before, list) else []), *excluded]
        members["tools"] = tools.with_value({**tools.entries, "exclude": tools.with_value(both)})
    return entry.with_value(members)


def _own_members(
    members: dict[str, Node], sections: list[_Section], translation: Translation, *, is_host_file: bool
) -> dict[str, Node]:
    """Our sections except servers; warns about ignored ones."""
    taken = {"mcpServers", *(section.key for section in sections if section.host is not None)}
    hosts = {section.host for section in sections if section.key in _HOST_KEYS or isinstance(section.node.value, list)}
    if not (is_host_file or hosts):
        return {key: node for key, node in members.items() if key not in taken}
    theirs = frozenset[str]().union(*(_KEYS_OF_HOST.get(host, ()) for host in hosts if host is not None))
    ours = {
        key
        for key in members.keys() - taken - theirs
        if "codex" not in hosts and nearest(key, Settings.model_fields, cutoff=0.8)
    }
    understood = {"mcp", "tools", "permission"} if "mcp" in members else set()
    others = [key for key in members if key not in ours | taken | understood]
    if others:
        names = ", ".join(repr(printable(key)) for key in others[:8]) + (" …" if len(others) > 8 else "")
        translation.warnings.append(f"{translation.problems.name}: ignored, settings of other programs: {names}")
    return {key: node for key, node in members.items() if key in ours}


def _with_rules(members: dict[str, Node], rules: list[dict[str, str]]) -> dict[str, Node]:
    """The members with these permission rules appended, so that they do not weaken the person's rules."""
    if not rules:
        return members
    permissions = members.get("permissions") or Node({}, 0, "permissions")
    before = permissions.entries.get("rules") or Node([], 0, "permissions.rules")
    if not isinstance(permissions.value or {}, dict) or not isinstance(before.value or [], list):
        return members  # reported by the schema check
    added = [
        Node({key: Node(text, 0, "permissions.rules", text) for key, text in rule.items()}, 0, "permissions.rules")
        for rule in rules
    ]
    both = [*(before.value if isinstance(before.value, list) else []), *added]
    return {**members, "permissions": permissions.with_value({**permissions.entries, "rules": before.with_value(both)})}
