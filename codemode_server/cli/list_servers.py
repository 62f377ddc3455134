"""The `list` command: the servers of the configuration, without connecting to them."""

from __future__ import annotations

import argparse

from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import HOW_TO_ADD, announce, show, table
from codemode_server.config import load
from codemode_server.text import one_line

_MAX_CHARACTERS = 120


def run(parsed: argparse.Namespace) -> int:
    loaded = load(config_file(parsed), require_trust=False)
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
