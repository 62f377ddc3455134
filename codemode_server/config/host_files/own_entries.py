"""Writes our entry in the form of each host, recognises it, and finds the servers that a host has as well as we do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemode_server.config.conversion import Reading
from codemode_server.config.document import parse
from codemode_server.config.file_edits import KeyPath, find
from codemode_server.config.formats import host_servers
from codemode_server.config.host_entries import Translator
from codemode_server.config.hosts import KnownHost
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.new_server import command_words, names_this_server
from codemode_server.config.places import Sources, with_home
from codemode_server.config.problems import Problems
from codemode_server.domain.errors import SettingsError
from codemode_server.settings import ServerSettings, ToolFilter

NAME = "codemode"
_COMMAND_KEYS = ("command", "cmd", "args", "transport")
_ENV_KEYS = ("env", "environment", "envs")


@dataclass(frozen=True, slots=True)
class ProductCommand:
    """How a host starts this product."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def servers_path(host: KnownHost, data: Any) -> KeyPath:
    """Where this file has its servers: opencode 2 has them one level deeper."""
    inner = find(data, (*host.servers, "servers")) if host.id == "opencode" else None
    is_deeper = isinstance(inner, dict) and not {"command", "url", "type"} & inner.keys()
    return (*host.servers, "servers") if is_deeper else host.servers


def own_entry(host: KnownHost, launch: ProductCommand, servers: Any) -> dict[str, Any]:
    """Our entry, beside those that are there."""
    args, env = list(launch.args), dict(launch.env)
    if host.id == "opencode":
        entry: dict[str, Any] = {"type": "local", "command": [launch.command, *args]}
        return {**entry, "environment": env} if env else entry
    if host.id == "goose":
        entry = {"name": NAME, "type": "stdio", "cmd": launch.command, "args": args, "envs": env}
        return {**entry, "enabled": True, "timeout": 300}
    entry = {"command": launch.command, "args": args, **({"env": env} if env else {})}
    others = [it for _, it in named(servers) if isinstance(it, dict)]
    if host.id == "cline" and (not others or any(isinstance(it.get("transport"), dict) for it in others)):
        return {"transport": {"type": "stdio", **entry}}  # older versions have no `transport`
    return {**host.before, **entry, **host.after}


def updated(there: Mapping[str, Any], wanted: Mapping[str, Any], *, is_command_given: bool) -> dict[str, Any]:
    """Our entry that is there, with what it lacks. The person may have changed it, so only what our tools need is
    added, and the command if another one `is_command_given` or the one there can't be run."""
    command = next(iter(command_words(there)), "")
    is_runnable = bool(command) and shutil.which(with_home(command)) is not None
    if is_runnable and not is_command_given:
        return {
            **there,
            **{key: wanted[key] for key in ("alwaysLoad", "required") if key in wanted and key not in there},
        }
    merged = {**there, **{key: value for key, value in wanted.items() if key not in there or key in _COMMAND_KEYS}}
    for key in _ENV_KEYS:
        if key in wanted and isinstance(there.get(key), dict):
            merged[key] = {**there[key], **wanted[key]}
    return merged


def own_entries(servers: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries that start this product by any launcher, whatever they are called."""
    for name, it in named(servers):
        if isinstance(it, dict) and names_this_server(command_words(it)):
            yield name, it


def named(servers: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a mapping, or of a list of entries with names."""
    if isinstance(servers, dict):
        yield from servers.items()
    for item in servers if isinstance(servers, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"], item


def imported(host: KnownHost, servers: Any, loaded: LoadedSettings) -> tuple[dict[str, str], list[str]]:
    """The servers that our configuration has with the same content, each with its name there, and the others.

    Only the former may be taken out of the host's file: a server that differs in one argument or one token is another
    one, and what could not be called before must not be callable after.
    """
    same: dict[str, str] = {}
    others: list[str] = []
    ours = {name for name, _ in own_entries(servers)}
    for name, entry in named(servers):
        if name in ours or not isinstance(entry, dict):
            continue
        if (counterpart := _counterpart(host, name, entry, loaded)) is None:
            others.append(name)
        else:
            same[name] = counterpart
    return same, others


def _counterpart(host: KnownHost, name: str, entry: dict[str, Any], loaded: LoadedSettings) -> str | None:
    """The server of ours with the same content, and with a rule for each tool before which the host asks."""
    if not Path(str(entry.get("cwd", loaded.base_dir))).is_absolute():  # the host's file and ours are in other folders
        return None
    data: dict[str, Any] = {host.servers[0]: {name: entry}}
    if host.dialect == "gemini":
        data["general"] = {}  # by which the reader knows whose file it is
    (server,) = host_servers(data, Translator(os.environ, loaded.base_dir, Sources(), []), is_host_file=True)
    found = server.translated
    if found.problems or found.left_out or found.is_unclear:
        return None
    problems = Problems(name)
    members = {key: value for key, value in found.members.items() if value is not None}
    try:
        tree = parse(json.dumps({"servers": {server.name: members}}), problems, is_json=True)
        theirs = Reading(problems, [], os.environ, loaded.base_dir).settings(tree).servers.get(server.name)
    except SettingsError:
        return None
    rules = {rule.ask or rule.deny for rule in loaded.settings.permissions.rules}
    for candidate, ours in loaded.settings.servers.items():
        is_covered = {f"{candidate}/{glob}" for glob in found.asks} <= rules
        is_started = ours.enabled or not (theirs and theirs.enabled)
        if theirs and _content(ours) == _content(theirs) and _is_as_strict(ours.tools, theirs.tools):
            return candidate if is_covered and is_started else None
    return None


def _content(server: ServerSettings) -> tuple[Any, ...]:
    """Which server it is."""
    return server.command, tuple(server.args), server.url, dict(server.env), dict(server.headers), str(server.cwd)


def _is_as_strict(ours: ToolFilter, theirs: ToolFilter) -> bool:
    """True if `ours` allows no tool that `theirs` forbids."""
    includes = theirs.include in (ours.include, ("*",)) or set(ours.include) <= set(theirs.include)
    return includes and set(theirs.exclude) <= set(ours.exclude)
