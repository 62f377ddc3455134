"""Finds the servers in a configuration file of any supported host, by content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codemode_server.config import checking
from codemode_server.config.document import Node
from codemode_server.config.file_edits import plain_data
from codemode_server.config.host_entries import (
    ASKS,
    TranslatedEntry,
    Translator,
    glob_covering,
    glob_within,
    names_in,
)
from codemode_server.config.hosts import SECTIONS, Dialect
from codemode_server.config.new_server import server_name
from codemode_server.config.places import Sources
from codemode_server.config.problems import Problems, joined, nearest, printable
from codemode_server.settings import Settings

_KEYS_OF_HOST: Mapping[Dialect, frozenset[str]] = {
    "opencode": frozenset({"permission", "server", "tools"}),
    "zed": frozenset({"search"}),
}
"""Host keys that resemble our sections. In a file of Codex, all keys are its own."""
_GEMINI_ENTRY = frozenset({"httpUrl", "trust", "targetAudience", "targetServiceAccount", "authProviderType"})
_GEMINI_FILE = frozenset({"mcp", "security", "selectedAuthType", "general", "ui"})
"""Keys that only Gemini CLI and Qwen Code write. There a `url` without a `type` is SSE, and `$NAME` is a variable."""
NO_SERVERS = f"holds no servers; they are looked for under servers, mcpServers, {', '.join(SECTIONS)}"


@dataclass(frozen=True, slots=True)
class HostServer:
    """One server of a host's file."""

    name: str
    """Its name here."""
    name_there: str
    path: checking.KeyPath
    """Where the file has its entry."""
    translated: TranslatedEntry

    @property
    def rules(self) -> list[dict[str, str]]:
        return [{"ask": f"{self.name}/{glob}", "reason": ASKS} for glob in self.translated.asks]


@dataclass(frozen=True, slots=True)
class _Section:
    """Servers under one key of the file."""

    key: str
    path: tuple[str, ...]
    entries: Any
    dialect: Dialect | None
    """None for entries in our form."""


@dataclass(slots=True)
class Translation:
    """The translation of the file that is loaded."""

    problems: Problems
    warnings: list[str]
    variables: Mapping[str, str]
    base_dir: Path
    sources: Sources
    from_env_files: list[tuple[str, str]] = field(default_factory=list)
    """Variables of each `envFile` with their values; `secrecy` decides which are secrets."""
    translated: set[str] = field(default_factory=set)
    """The names of servers whose entries were in a host's form."""


def host_servers(data: Mapping[str, Any], translator: Translator, *, is_host_file: bool) -> Iterator[HostServer]:
    """The servers of the file that are in the form of a host."""
    sections = list(_sections(data, is_host_file=is_host_file))
    for section in sections:
        for name, path, entry in _entries(section):
            if isinstance(entry, dict):
                result = translator.translated(entry, section.dialect or "any")
                _restrict_by_file(name, result, data, {it.key for it in sections})
            else:
                result = TranslatedEntry(problems=[((), "must be a mapping of settings")])
            yield HostServer(server_name(name), name, path, result)


def has_servers(data: Mapping[str, Any]) -> bool:
    return bool({"servers", "mcpServers", *SECTIONS} & data.keys())


def in_our_form(tree: Node, translation: Translation, *, is_host_file: bool) -> Node:
    """The tree with all servers under `servers`, in our form.

    JSON and TOML (`is_host_file`) are taken to be hosts' own, so keys in them that are not ours are theirs; so is
    `mcpServers` anywhere.
    """
    members = {key: node for key, node in tree.entries.items() if not key.startswith("x-") and key != "$schema"}
    data = {key: plain_data(node) for key, node in members.items()}
    problems = translation.problems
    sections = list(_sections(data, is_host_file=is_host_file))
    own = members["servers"].entries if "servers" in members and not is_host_file else {}
    servers = dict(own)
    problems.entries |= {node.where: name for name, node in own.items()}
    rules: list[dict[str, str]] = []
    for section in sections:
        is_list = section.key == "mcpServers" and isinstance(section.entries, list)
        if section.key != "servers" and not is_list and not isinstance(section.entries, dict):
            node = members[section.key]
            problems.add(node.line, node.where, "must be a mapping of names to servers")
    translator = Translator(translation.variables, translation.base_dir, translation.sources, translation.warnings)
    for server in host_servers(data, translator, is_host_file=is_host_file):
        entry, result = checking.find(tree, server.path), server.translated
        problems.entries[entry.where] = server.name
        translation.translated.add(server.name)
        warnings = [*result.warnings, *([((), f"ignored: it {result.left_out}")] if result.left_out else [])]
        for path, message in result.problems if not result.left_out else ():
            node = checking.find(entry, path)
            problems.add(node.line, node.where, message)
        for path, message in warnings:
            node = checking.find(entry, path)
            translation.warnings.append(f"{problems.name}:{node.line}: {node.where}: {message}")
        if result.left_out:
            continue
        if server.name != server.name_there:
            translation.warnings.append(f"{problems.name}:{entry.line}: {entry.where}: is called {server.name!r} here")
        if server.name in servers:
            problems.add(entry.line, entry.where, f"there are two servers {server.name!r}; rename one")
        translation.from_env_files += result.env_file_variables.items()
        servers[server.name] = _entry_node(entry, result)
        rules += server.rules
    left = _own_members(members, sections, translation, is_host_file=is_host_file)
    if is_host_file and members and not left and not has_servers(data):
        problems.add(0, "", NO_SERVERS)
    if servers:
        first = members[sections[0].key] if sections else members["servers"]
        left["servers"] = Node(servers, first.line, "servers")
    return tree.with_value(_with_rules(left, rules))


def _sections(data: Mapping[str, Any], *, is_host_file: bool) -> Iterator[_Section]:
    for key, entries in data.items():
        values = entries.values() if isinstance(entries, dict) else ()
        if entries is None or key not in ("servers", "mcpServers", *SECTIONS):
            continue
        if key == "servers":
            if is_host_file:
                yield _Section(key, (key,), entries, "any")
        elif key == "mcpServers":
            is_gemini = any(_GEMINI_ENTRY & it.keys() for it in values if isinstance(it, dict))
            yield _Section(key, (key,), entries, "gemini" if is_gemini or _GEMINI_FILE & data.keys() else "any")
        elif key == "mcp":
            if "mcpServers" in data:  # then these are Gemini's settings
                continue
            inner = entries.get("servers") if isinstance(entries, dict) else None
            if isinstance(inner, dict) and not {"command", "url"} & inner.keys():  # opencode 2
                yield _Section(key, (key, "servers"), inner, "opencode")
            else:
                yield _Section(key, (key,), entries, "opencode")
        else:
            yield _Section(key, (key,), entries, SECTIONS[key])


def _entries(section: _Section) -> Iterator[tuple[str, checking.KeyPath, Any]]:
    if isinstance(section.entries, dict):
        for name, entry in section.entries.items():
            if section.key != "mcp" or isinstance(entry, dict):
                yield name, (*section.path, name), entry
    elif section.key == "mcpServers" and isinstance(section.entries, list):  # Continue
        for index, entry in enumerate(section.entries):
            members = dict(entry) if isinstance(entry, dict) else entry
            name = members.pop("name", None) if isinstance(members, dict) else None
            yield str(name or f"server-{index + 1}"), (*section.path, index), members


def _restrict_by_file(name: str, result: TranslatedEntry, data: Mapping[str, Any], sections: set[str]) -> None:
    """Restrict the entry by what the rest of the file switches off."""
    settings, tools = (it if isinstance(it, dict) else {} for it in (data.get("mcp"), data.get("tools")))
    settings = {} if "mcp" in sections else settings
    folded = name.casefold()
    for key, names, is_listed_off in (
        ("mcp.excluded", settings.get("excluded"), True),
        ("mcp.allowed", settings.get("allowed"), False),
        ("excludeMCPServers", data.get("excludeMCPServers"), True),
        ("allowMCPServers", data.get("allowMCPServers"), False),
    ):
        if names is not None and not isinstance(names, list):
            result.disable((), f"`{key}` of this file")
        elif names is not None and (folded in {it.casefold() for it in names_in(names)}) is is_listed_off:
            result.members["enabled"] = False
    for key, names in (("tools.exclude", tools.get("exclude")), *((it, data.get(it)) for it in _TOOL_LISTS)):
        if names is not None and not isinstance(names, list):
            result.disable((), f"`{key}` of this file")
        result.exclude([glob_covering(it) for it in names_in(names) if not it.startswith("builtin:")])
    patterns = [] if "exclude" in tools else [(it, "deny") for it, value in tools.items() if value is not True]
    for pattern, answer in [*patterns, *(_permissions(data.get("permission")) if "mcp" in sections else ())]:
        glob = glob_within(pattern, name)
        if glob is None:
            result.disable((), f"the pattern {printable(pattern)!r} of this file")
        elif glob and answer == "deny":
            result.exclude([glob])
        elif glob:
            result.asks.append(glob)


_TOOL_LISTS = ("excludeTools", "amp.tools.disable")


def _permissions(value: Any) -> Iterator[tuple[str, str]]:
    """Restrictions in opencode's `permission`, by pattern; rules that are not understood deny."""
    for pattern, rule in value.items() if isinstance(value, dict) else [("*", value)] if value is not None else []:
        answers = set(map(str, rule.values())) if isinstance(rule, dict) else {str(rule)}
        if answers - {"allow"}:
            yield pattern, "ask" if answers <= {"allow", "ask"} else "deny"


def _entry_node(entry: Node, result: TranslatedEntry) -> Node:
    members: dict[str, Node] = {}
    for key, value in result.members.items():
        origin = checking.find(entry, result.origins.get(key, (key,)))
        members[key] = _node(value, origin, joined(entry.where, key) if origin is entry else origin.where)
    from_file = result.env_file_variables
    env = result.members.get("env") or {}
    if from_file and "env" in members:
        own = {
            name: replace(node, env_file=result.env_file)
            if env[name] == from_file.get(name, "").replace("$", "$$")
            else node
            for name, node in members["env"].entries.items()
        }
        members["env"] = members["env"].with_value(own)
    return entry.with_value(members)


def _node(value: Any, origin: Node, where: str) -> Node:
    """A node of this value, with the lines of what it was made of."""
    if plain_data(origin) == value and not isinstance(value, dict):
        return origin
    if isinstance(value, dict):
        inner = {key: _node(it, origin.entries.get(key, origin), joined(where, key)) for key, it in value.items()}
        return Node(inner, origin.line, where)
    if isinstance(value, list):
        return Node([_node(it, Node(None, origin.line, where), where) for it in value], origin.line, where)
    return Node(value, origin.line, where, str(value).lower() if isinstance(value, bool) else str(value))


def _own_members(
    members: dict[str, Node], sections: list[_Section], translation: Translation, *, is_host_file: bool
) -> dict[str, Node]:
    """Our sections except servers; warns about ignored ones."""
    taken = {"mcpServers", *(section.key for section in sections)}
    dialects = {it.dialect for it in sections if it.key in SECTIONS or isinstance(it.entries, list)}
    if not (is_host_file or dialects):
        return {key: node for key, node in members.items() if key not in taken}
    theirs = frozenset[str]().union(*(_KEYS_OF_HOST.get(it, ()) for it in dialects if it is not None))
    ours = {
        key
        for key in members.keys() - taken - theirs
        if "codex" not in dialects and nearest(key, Settings.model_fields, cutoff=0.8)
    }
    understood = {"mcp", "tools", "permission"} if "mcp" in members else set()
    others = [key for key in members if key not in ours | taken | understood]
    if others:
        names = ", ".join(repr(printable(key)) for key in others[:8]) + (" …" if len(others) > 8 else "")
        translation.warnings.append(f"{translation.problems.name}: ignored, settings of other programs: {names}")
    return {key: node for key, node in members.items() if key in ours}


def _with_rules(members: dict[str, Node], rules: list[dict[str, str]]) -> dict[str, Node]:
    """The members with these permission rules appended, so that they do not weaken the person's rules."""
    permissions = members.get("permissions") or Node({}, 0, "permissions")
    before = permissions.entries.get("rules") or Node([], 0, "permissions.rules")
    if not rules or not isinstance(permissions.value or {}, dict) or not isinstance(before.value or [], list):
        return members  # a mistake is reported by the schema check
    added = [_node(rule, Node(None, 0, "permissions.rules"), "permissions.rules") for rule in rules]
    both = [*(before.value if isinstance(before.value, list) else []), *added]
    return {**members, "permissions": permissions.with_value({**permissions.entries, "rules": before.with_value(both)})}
