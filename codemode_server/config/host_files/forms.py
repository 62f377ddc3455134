"""What our entry looks like in the file of each host, and how we recognise it there.

What single hosts need beyond the command: Claude Code shows our tools to the model at once only with `alwaysLoad`,
Codex waits for a server only if it is `required`, Copilot CLI offers no tool that `tools` doesn't name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codemode_server.config.host_entries import names_this_server
from codemode_server.config.host_files.entries import find
from codemode_server.config.host_files.spans import Path
from codemode_server.config.host_places import KnownHost
from codemode_server.config.places import with_home

NAME = "codemode"
_ENV_KEYS = ("env", "environment", "envs")
_ENTRY_KEYS = frozenset({"command", "url", "type"})


@dataclass(frozen=True, slots=True)
class ProductCommand:
    """How a host starts this product."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def servers_path(host: KnownHost, data: Any) -> Path:
    """Where this file has its servers: opencode 2 has them one level deeper."""
    for path in host.other_servers:
        inner = None if "*" in path else find(data, path)
        if isinstance(inner, dict) and not _ENTRY_KEYS & inner.keys():
            return path
    return host.servers


def entry(host: KnownHost, launch: ProductCommand, servers: Any) -> dict[str, Any]:
    """Our entry, beside those that are there."""
    plain: dict[str, Any] = {"command": launch.command, "args": list(launch.args)}
    env = {"env": dict(launch.env)} if launch.env else {}
    if host.id == "opencode":
        environment = {"environment": dict(launch.env)} if launch.env else {}
        return {"type": "local", "command": [launch.command, *launch.args], **environment}
    if host.id == "goose":
        return {
            "name": NAME,
            "type": "stdio",
            "cmd": launch.command,
            "args": list(launch.args),
            "envs": dict(launch.env),
            "enabled": True,
            "timeout": 300,
        }
    if host.id == "cline" and not _has_flat_entries(servers):
        return {"transport": {"type": "stdio", **plain, **env}}
    before, after = _EXTRAS.get(host.id, ({}, {}))
    return {**before, **plain, **env, **after}


_EXTRAS: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "claude-code": ({"type": "stdio"}, {"alwaysLoad": True}),
    "codex": ({}, {"required": True}),
    "copilot": ({"type": "local"}, {"tools": ["*"]}),
    "vscode": ({"type": "stdio"}, {}),
    "zed": ({"source": "custom"}, {}),
}
"""What stands before the command and after the environment."""


def updated(there: Mapping[str, Any], wanted: Mapping[str, Any], *, is_command_new: bool) -> dict[str, Any]:
    """Our entry that is there, with what it lacks. The person may have changed it, so only that is added, and the
    command with its arguments and environment if `is_command_new`."""
    merged = {**wanted, **there}
    if is_command_new:
        for key in ("command", "cmd", "args", "transport"):
            if key in wanted:
                merged[key] = wanted[key]
        for key in _ENV_KEYS:
            if key in wanted:
                before = there.get(key)
                merged[key] = {**(before if isinstance(before, dict) else {}), **wanted[key]}
    else:
        merged = {key: value for key, value in merged.items() if key in there or key in ("alwaysLoad", "required")}
    order = [*there, *(key for key in merged if key not in there)]
    return {key: merged[key] for key in order}


def our_entries(servers: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries that start this product, whatever they are called."""
    for name, it in named(servers):
        if isinstance(it, dict) and is_ours(it):
            yield name, it


def named(servers: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a mapping, or of a list of entries with names."""
    if isinstance(servers, dict):
        yield from servers.items()
    elif isinstance(servers, list):
        for item in servers:
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield item["name"], item


def is_ours(it: Mapping[str, Any]) -> bool:
    """Whether the entry starts this product, by any launcher."""
    return names_this_server(words(it))


def words(it: Mapping[str, Any]) -> list[str]:
    """The command of an entry with its arguments."""
    inner = it.get("transport")
    members = inner if isinstance(inner, dict) else it
    found: list[str] = []
    for key in ("command", "cmd", "args"):
        value = members.get(key)
        if isinstance(value, dict):  # of older files of Zed
            found += words({"command": value.get("path"), "args": value.get("args")})
        found += [value] if isinstance(value, str) else []
        found += [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
    return found


def is_off(it: Mapping[str, Any]) -> bool:
    """Whether the host's file switches the entry off."""
    return it.get("disabled") is True or it.get("enabled") is False


def is_runnable(it: Mapping[str, Any]) -> bool:
    """Whether the entry's command exists on this machine."""
    import shutil

    command = next(iter(words(it)), "")
    return bool(command) and shutil.which(with_home(command)) is not None


def _has_flat_entries(servers: Any) -> bool:
    """Older versions of Cline have no `transport`."""
    entries = [it for _, it in named(servers) if isinstance(it, dict)]
    return bool(entries) and not any(isinstance(it.get("transport"), dict) for it in entries)
