"""The `effects` command: says in the configuration which tools only read, for tools whose servers don't. It proposes
them by the tools of the last run, and takes only what a person at a terminal has seen."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from codemode_server.calls.policy.effect_proposals import COMMAND, proposed_readers
from codemode_server.catalog.catalog import Tool
from codemode_server.cli import edited_config
from codemode_server.cli.terminal import configuration, person_confirms, show, table
from codemode_server.config.problems import no_server
from codemode_server.domain.errors import CodemodeError
from codemode_server.domain.tools import EFFECTS_OF_SETTINGS
from codemode_server.records.known_tools import KnownTools
from codemode_server.support.setting_types import RuleEffect
from codemode_server.support.text import clean_line, counted

_MAX_SUMMARY_CHARACTERS = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print tools that ask and seem to only read; the default")
    accepting = actions.add_parser("accept", help="take these as tools that only read; asks you")
    for action in (listing, accepting):
        action.add_argument("servers", nargs="*", metavar="SERVER", help="default: all")
    listing.add_argument("--json", action="store_true", help="print JSON")
    setting = actions.add_parser("set", help="say it yourself; asks you")
    setting.add_argument("tool", metavar="SERVER/TOOL", help="as `github/search_*`, in quotes")
    setting.add_argument("effect", choices=list(EFFECTS_OF_SETTINGS))


def run(parsed: argparse.Namespace) -> int:
    if parsed.action == "set":
        server, _, glob = parsed.tool.partition("/")
        if not server or not glob:
            raise CodemodeError(f"{parsed.tool!r} is not of the form SERVER/TOOL")
        return _set(parsed, {server: {glob: parsed.effect}}, f"{parsed.tool}: {parsed.effect}")
    found = _proposed(parsed)
    if parsed.action == "list" and parsed.json:
        show(json.dumps({server: [it.raw_name for it in tools] for server, tools in found.items()}, indent=2))
    elif not found:
        show("no tool that asks seems to only read, by the tools of the last run")
    elif parsed.action != "accept":
        show(f"{_page(found)}\n\n{COMMAND} accept [SERVER …] | set SERVER/TOOL read|write|destructive")
    else:
        effects: dict[str, dict[str, RuleEffect]] = {
            server: dict.fromkeys([it.raw_name for it in tools], "read") for server, tools in found.items()
        }
        return _set(parsed, effects, _page(found))
    return 0


def _proposed(parsed: argparse.Namespace) -> Mapping[str, Sequence[Tool]]:
    loaded = configuration(parsed, require_trust=False, resolve=False)
    for name in parsed.servers:
        if name not in loaded.settings.servers:
            raise no_server(name, loaded.settings.servers)
    with KnownTools.of(loaded) as known:
        found = proposed_readers(loaded.settings.permissions, known.catalog)
    return {server: tools for server, tools in found.items() if server in (parsed.servers or found)}


def _page(found: Mapping[str, Sequence[Tool]]) -> str:
    parts: list[str] = []
    for server, tools in found.items():
        rows = [(f"  {it.raw_name}", clean_line(it.summary, _MAX_SUMMARY_CHARACTERS)) for it in tools]
        parts.append("\n".join([f"{server}: by name and description these only read", *table(rows)]))
    return "\n\n".join(parts)


def _set(parsed: argparse.Namespace, effects: Mapping[str, Mapping[str, RuleEffect]], page: str) -> int:
    count = counted(sum(map(len, effects.values())), "line")
    place = edited_config.located(parsed)
    if not person_confirms(page, f"Write {count} of servers.NAME.effects to {place.path}?"):
        show("nothing was changed")
        return 1
    with edited_config.locked(place) as file:
        for server, its in effects.items():
            file.text.set_effects(server, its)
        file.save()
    show(f"written to {place.path}: effects of {', '.join(effects)}; a running codemode-server notices in seconds")
    return 0
