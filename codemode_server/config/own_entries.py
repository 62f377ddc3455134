"""Writes our entry in the form of each host, recognises it, and finds the servers that a host has as well as we do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codemode_server.config.file_edits import KeyPath, find
from codemode_server.config.host_reading import read_data
from codemode_server.config.hosts import KnownHost
from codemode_server.config.import_plan import settings_of
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.new_server import command_words, names_this_server
from codemode_server.config.places import with_home
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
        lacking = {key: it for key, it in wanted.items() if key in ("alwaysLoad", "required") and key not in there}
        return {**there, **lacking}
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


def imported(host: KnownHost, path: Path, data: dict[str, Any], loaded: LoadedSettings) -> dict[str, str]:
    """The servers that our configuration has with the same content, each with its name there.

    Only these may be taken out of the host's file: a server that differs in one argument or one token is another one,
    and what could not be called before must not be callable after.
    """
    same: dict[str, str] = {}
    for server in read_data(data, host.id, path, os.environ):
        if not Path(str(server.entry.get("cwd", loaded.base_dir))).is_absolute():  # the two files are in other folders
            continue
        theirs, _ = settings_of(server.name, server.entry, os.environ, loaded.base_dir)
        if theirs is None or server.is_unclear:
            continue
        for name, ours in loaded.settings.servers.items():
            if _content(ours) == _content(theirs) and _is_as_strict(ours.tools, theirs.tools):
                if ours.enabled or not theirs.enabled:
                    same[server.name_there] = name
                break
    return same


def _content(server: ServerSettings) -> tuple[Any, ...]:
    """Which server it is."""
    return server.command, tuple(server.args), server.url, dict(server.env), dict(server.headers), str(server.cwd)


def _is_as_strict(ours: ToolFilter, theirs: ToolFilter) -> bool:
    """True if `ours` allows no tool that `theirs` forbids."""
    includes = theirs.include in (ours.include, ("*",)) or set(ours.include) <= set(theirs.include)
    return includes and set(theirs.exclude) <= set(ours.exclude)
