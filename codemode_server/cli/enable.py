"""The `enable` command: switches servers of `upstream.yaml` on."""

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
    return switch(parsed, is_enabled=True)


def switch(parsed: argparse.Namespace, *, is_enabled: bool) -> int:
    """Switch the named servers; all of them, or none if one can't be."""
    switched = switch_servers(edited_config.located(parsed), parsed.names, is_enabled=is_enabled)
    show(switched.text)
    if switched.trust_needed:
        announce(switched.trust_needed)
    return 0
