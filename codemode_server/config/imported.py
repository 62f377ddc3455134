"""Finds the servers of a host's file that our configuration has too, so that the host need not start them any more.

Two entries are the same server if they start the same program with the same arguments, or have the same address, with
the same credentials or under the same name. What could not be called in the host must not be callable here: a server is
only found if ours has all its restrictions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codemode_server.config.commands import start_the_same
from codemode_server.config.file_edits import KeyPath, find
from codemode_server.config.host_reading import FoundServer, read_data
from codemode_server.config.hosts import KnownHost
from codemode_server.config.import_plan import literal_secrets, settings_of
from codemode_server.config.loading import LoadedSettings
from codemode_server.config.settings import ServerSettings, ToolFilter
from codemode_server.support.network_variables import NETWORK_VARIABLES


@dataclass(frozen=True, slots=True)
class ComparedServer:
    """One server in a host's file."""

    path: KeyPath
    """Of its entry."""
    name: str
    """Its name there, and its folder if it is for one folder only."""
    ours: str = ""
    """The name of the same server in our configuration; empty if there is none that can take its place."""
    why_not: str = ""
    """Why no server of ours takes its place, as a clause; empty if one does."""


def compared(
    host: KnownHost, file: Path, data: dict[str, Any], servers: KeyPath, loaded: LoadedSettings | None
) -> Iterator[ComparedServer]:
    """Each server of the file, whose servers are at `servers`, beside ours. Without ours, none has one."""
    for server in read_data(data, host.id, file, os.environ):
        path = (*(("projects", server.folder, "mcpServers") if server.folder else servers), server.name_there)
        if find(data, path) is not None:
            name = f"{server.name_there} of {server.folder}" if server.folder else server.name_there
            ours, why_not = _counterpart(server, loaded)
            yield ComparedServer(path, name, ours, why_not)


def secrets_of(host: KnownHost, file: Path, data: dict[str, Any]) -> Iterator[str]:
    """The secrets of the servers in a host's file, except those that are too short to be masked."""
    for server in read_data(data, host.id, file, os.environ):
        yield from (secret for secret in literal_secrets(server.entry).values if "${" not in secret)


def _counterpart(server: FoundServer, loaded: LoadedSettings | None) -> tuple[str, str]:
    none = "which your configuration does not have"
    if loaded is None:
        return "", none
    theirs, _ = settings_of(server.name, server.entry, {**loaded.dotenv, **os.environ}, loaded.base_dir)
    if theirs is None:
        return "", none
    if "cwd" not in server.entry:  # it then runs where the host does
        theirs = theirs.model_copy(update={"cwd": None})
    alike = [
        (name, ours) for name, ours in loaded.settings.servers.items() if _is_same(name, ours, server.name, theirs)
    ]
    if not alike:
        return "", none
    for name, ours in sorted(alike, key=lambda it: it[0] != server.name):
        if (ours.enabled or not theirs.enabled) and not server.is_unclear and _is_as_strict(ours.tools, theirs.tools):
            return name, ""
    if server.is_unclear or any(ours.enabled for _, ours in alike):
        return "", "of which your configuration allows more"
    return "", "which is disabled in your configuration"


def _is_same(name: str, ours: ServerSettings, name_there: str, theirs: ServerSettings) -> bool:
    if theirs.url is not None or ours.url is not None:
        is_alike = (ours.url or "").rstrip("/") == (theirs.url or "").rstrip("/")
    else:
        is_alike = _starts_the_same(ours, theirs)
    credentials = {key: value for key, value in _credentials(theirs).items() if key not in NETWORK_VARIABLES}
    given = _credentials(ours)
    if not is_alike or not credentials.keys() <= given.keys():
        return False
    # One of the same name may have got another token since; under another name it is another account.
    return name == name_there or all(given[key] == value for key, value in credentials.items())


def _starts_the_same(ours: ServerSettings, theirs: ServerSettings) -> bool:
    if theirs.cwd is not None and theirs.cwd != ours.cwd:
        return False
    one, other = ([it.command or "", *it.args] for it in (ours, theirs))
    return start_the_same(one, other, ours.cwd or "")


def _credentials(server: ServerSettings) -> dict[str, str]:
    return {**server.env, **{name.casefold(): value for name, value in server.headers.items()}}


def _is_as_strict(ours: ToolFilter, theirs: ToolFilter) -> bool:
    """True if `ours` allows no tool that `theirs` forbids."""
    includes = theirs.include in (ours.include, ("*",)) or set(ours.include) <= set(theirs.include)
    return includes and set(theirs.exclude) <= set(ours.exclude)
