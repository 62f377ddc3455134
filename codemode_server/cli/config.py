"""The `config` command: checks `upstream.yaml`, or prints its JSON Schema."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from codemode_server.cli.terminal import announce, configuration, show
from codemode_server.config import LoadedSettings
from codemode_server.config.description import describe, may_start
from codemode_server.domain.errors import CodemodeError
from codemode_server.settings import json_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("check", help="print what was understood; the default")
    actions.add_parser("schema", help="print the JSON Schema for editors")


def run(parsed: argparse.Namespace) -> int:
    if parsed.action == "schema":
        print(json.dumps(json_schema(), indent=2))
        return 0
    loaded = configuration(parsed, require_trust=False)
    for error in loaded.server_errors:
        announce(error)
    show(describe(loaded, _rules_without_tools(loaded)))
    return 2 if loaded.server_errors else 0


def _rules_without_tools(loaded: LoadedSettings) -> Sequence[str]:
    """Warnings of rules that match no tool as of the last run; the state folder of an untrusted file is not opened."""
    if not loaded.settings.permissions.rules or not may_start(loaded):
        return ()
    from codemode_server.gateway.policy.rules_without_tools import rules_without_tools
    from codemode_server.records.known_tools import KnownTools

    try:
        with KnownTools.of(loaded) as known:
            return list(rules_without_tools(loaded.settings.permissions, known.catalog))
    except (CodemodeError, OSError):  # `status` and `doctor` say what is wrong with the state folder
        return ()
