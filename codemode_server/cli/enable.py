"""The `enable` command: switches servers of `upstream.yaml` on."""

from __future__ import annotations

import argparse

from codemode_server.cli import edited_config
from codemode_server.cli.arguments import add_config
from codemode_server.cli.terminal import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument("names", nargs="+", metavar="NAME")


def run(parsed: argparse.Namespace) -> int:
    return switch(parsed, is_enabled=True)


def switch(parsed: argparse.Namespace, *, is_enabled: bool) -> int:
    """Switch the named servers; all of them, or none if one can't be."""
    with edited_config.existing(parsed) as file:
        for name in parsed.names:
            file.text.set_enabled(name, is_enabled=is_enabled)
        file.save()
    show(f"{'enabled' if is_enabled else 'disabled'}: {', '.join(parsed.names)}")
    return 0
