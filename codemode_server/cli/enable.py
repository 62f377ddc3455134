"""The commands `enable` and `disable`: switch servers of `upstream.yaml` on or off; all that are named, or none."""

from __future__ import annotations

import argparse

from codemode_server.cli import edited_config
from codemode_server.cli.arguments import add_config
from codemode_server.cli.terminal import announce, show
from codemode_server.config.saving import switch_servers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("names", nargs="+", metavar="NAME")


def run(parsed: argparse.Namespace) -> int:
    is_enabled = parsed.command == "enable"
    switched = switch_servers(edited_config.located(parsed), parsed.names, is_enabled=is_enabled)
    show(switched.text)
    if switched.trust_needed:
        announce(switched.trust_needed)
    return 0
