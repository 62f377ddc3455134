"""The `config` command: checks `upstream.yaml`, or prints its JSON Schema."""

from __future__ import annotations

import argparse
import json

from codemode_server.cli.arguments import add_config, config_file
from codemode_server.cli.terminal import announce, show
from codemode_server.config import load
from codemode_server.config.description import describe
from codemode_server.settings import json_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    add_config(actions.add_parser("check", help="print what was understood; the default"))
    actions.add_parser("schema", help="print the JSON Schema for editors")


def run(parsed: argparse.Namespace) -> int:
    if parsed.action == "schema":
        print(json.dumps(json_schema(), indent=2))
        return 0
    loaded = load(config_file(parsed), require_trust=False)
    show(describe(loaded))
    for error in loaded.server_errors:
        announce(error)
    return 2 if loaded.server_errors else 0
