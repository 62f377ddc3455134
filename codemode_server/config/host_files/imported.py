"""Finds the servers of a host's file that are in our configuration too, with the same content.

Only those may be taken out of the host's file: a server that differs in one argument or one token is another one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codemode_server.config.conversion import Reading
from codemode_server.config.document import parse
from codemode_server.config.formats import in_our_form
from codemode_server.config.host_entries import Translation
from codemode_server.config.host_files.forms import is_off, is_ours, named
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.places import Sources
from codemode_server.config.problems import Problems
from codemode_server.domain.errors import SettingsError
from codemode_server.settings import ServerSettings, Settings, ToolFilter

_GEMINI_HOSTS = frozenset({"gemini", "qwen"})
_TOP_KEYS = {"opencode": "mcp", "zed": "context_servers", "goose": "extensions", "codex": "mcp_servers"}


@dataclass(frozen=True, slots=True)
class Imported:
    """A server of a host's file that our configuration has."""

    name: str
    """In the host's file."""
    ours: str
    """In our configuration."""


def imported(host_id: str, servers: Any, loaded: LoadedSettings) -> tuple[list[Imported], list[str]]:
    """The servers that both have, and the others by name, without this product's own entry."""
    found: list[Imported] = []
    others: list[str] = []
    for name, entry in named(servers):
        if not isinstance(entry, dict) or is_ours(entry):
            continue
        same = _same(_in_our_form(host_id, name, entry, loaded.base_dir), loaded.settings)
        if same is None or (not loaded.settings.servers[same].enabled and not is_off(entry)):
            others.append(name)
        else:
            found.append(Imported(name, same))
    return found, others


def _in_our_form(host_id: str, name: str, entry: Mapping[str, Any], base_dir: Path) -> Settings | None:
    """The entry as if the host's file had nothing else and were ours; None if it can't be used.

    Its folder must be absolute: a host's file and ours are in different folders.
    """
    if not Path(str(entry.get("cwd", base_dir))).is_absolute():
        return None
    problems = Problems(name)
    translation = Translation(problems, [], os.environ, base_dir, Sources())
    file: dict[str, Any] = {_TOP_KEYS.get(host_id, "mcpServers"): {name: dict(entry)}}
    if host_id in _GEMINI_HOSTS:
        file["general"] = {}  # by which the reader knows whose file it is
    try:
        tree = in_our_form(parse(json.dumps(file), problems, is_json=True), translation, is_host_file=True)
        settings = Reading(problems, [], os.environ, base_dir).settings(tree)
    except SettingsError:
        return None
    return settings if settings.servers else None


def _same(theirs: Settings | None, ours: Settings) -> str | None:
    """The server of ours with the same content, and with a rule for each tool before which the host asks."""
    if theirs is None:
        return None
    ((name, server),) = theirs.servers.items()
    asked = {rule.ask.removeprefix(f"{name}/") for rule in theirs.permissions.rules if rule.ask is not None}
    for candidate, it in ours.servers.items():
        covered = {f"{candidate}/{glob}" for glob in asked} <= {
            rule.ask or rule.deny for rule in ours.permissions.rules
        }
        if _content(it) == _content(server) and _is_as_strict(it.tools, server.tools) and covered:
            return candidate
    return None


def _content(server: ServerSettings) -> tuple[Any, ...]:
    """Which server it is."""
    return (
        server.command,
        tuple(server.args),
        server.url,
        tuple(sorted(server.env.items())),
        tuple(sorted(server.headers.items())),
        str(server.cwd),
    )


def _is_as_strict(ours: ToolFilter, theirs: ToolFilter) -> bool:
    """Whether no tool can be called by ours that can't be called by theirs."""
    includes = theirs.include in (ours.include, ("*",)) or set(ours.include) <= set(theirs.include)
    return includes and set(theirs.exclude) <= set(ours.exclude)
