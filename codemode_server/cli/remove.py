"""The `remove` command: removes servers from `upstream.yaml`, and keeps a copy of the file."""

from __future__ import annotations

import argparse

from codemode_server.cli import edited_config
from codemode_server.cli.arguments import add_config
from codemode_server.cli.terminal import show
from codemode_server.config import saving


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("names", nargs="+", metavar="NAME")


def run(parsed: argparse.Namespace) -> int:
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
