"""The `completion` command: prints a script with which a shell completes our commands and options.

The script is made from the arguments of all commands, so a new command is in it by itself. Shells read it once, when
they start; nothing of it runs when the product does.
"""

from __future__ import annotations

import argparse

from codemode_server.cli.terminal import show

_SHELLS = ("bash", "zsh", "fish", "powershell")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell that will read the script")


def run(parsed: argparse.Namespace) -> int:
    import shtab

    from codemode_server.cli import whole_parser

    show(shtab.complete(whole_parser(), shell=parsed.shell).rstrip("\n"))
    return 0
