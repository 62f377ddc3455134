"""The commands `list`, `enable`, `disable` and `remove`: the servers of the configuration, without connecting to them.
Of several that are named, all are changed or none."""

from __future__ import annotations

import argparse

from codemode_server.cli import edited_config
from codemode_server.cli.arguments import add_config
from codemode_server.cli.terminal import HOW_TO_ADD, announce, configuration, show, table
from codemode_server.config import saving
from codemode_server.text import one_line

_MAX_CHARACTERS = 120


def add_arguments_list(_: argparse.ArgumentParser) -> None:
    """`list` has no arguments."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("names", nargs="+", metavar="NAME")


def run_list(parsed: argparse.Namespace) -> int:
    loaded = configuration(parsed, require_trust=False)
    rows = [("server", "kind", "state")]
    for name, server in loaded.settings.servers.items():
        kind = "stdio" if server.command is not None else server.transport
        rows.append((one_line(name, _MAX_CHARACTERS), kind, "enabled" if server.enabled else "disabled"))
    rows += [(one_line(name, _MAX_CHARACTERS), "-", "invalid") for name in loaded.invalid_servers]
    none = f"there are no servers in {loaded.path or 'any file'}; {HOW_TO_ADD}"
    show("\n".join(table(rows)) if len(rows) > 1 else none)
    for error in loaded.server_errors:
        announce(error)
    return 1 if loaded.invalid_servers else 0


def run(parsed: argparse.Namespace) -> int:
    is_enabled = parsed.command == "enable"
    text, trust_needed = saving.switch_servers(edited_config.located(parsed), parsed.names, is_enabled=is_enabled)
    show(text)
    if trust_needed:
        announce(trust_needed)
    return 0


def run_remove(parsed: argparse.Namespace) -> int:
    place = edited_config.located(parsed)
    saving.check_exists(place)
    with edited_config.locked(place) as file:
        unprotected = [glob for name in parsed.names for glob in file.text.remove_server(name)]
        copy = file.save(keeps_copy=True)
    show(f"removed {', '.join(parsed.names)} from {file.place.path}; the file as it was: {copy}")
    if unprotected:
        names = ", ".join(unprotected)
        show(f"removed from privacy.servers as well: {names}; protect it again if you add the server again")
    return 0
