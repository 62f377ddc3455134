"""The commands `list`, `enable`, `disable`, `remove` and `add`, which takes the arguments of `claude mcp add`. Of
several servers that are named, all are changed or none."""

from __future__ import annotations

import argparse
from typing import Any

from codemode_server.cli import edited_config
from codemode_server.cli.arguments import config_file
from codemode_server.cli.terminal import HOW_TO_ADD, announce, show, table
from codemode_server.config import load, saving
from codemode_server.config.yaml_edits import Plain
from codemode_server.domain.errors import CodemodeError
from codemode_server.records.server_edits import SecretDestination, entry_from, pairs, planned, save, variables_left
from codemode_server.support.text import one_line

_MAX_CHARACTERS = 120


def add_arguments_list(_: argparse.ArgumentParser) -> None:
    """`list` has no arguments."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME")


def run_list(parsed: argparse.Namespace) -> int:
    loaded = load(config_file(parsed), resolve=False)
    rows = [("server", "kind", "state")]
    for name, server in loaded.settings.servers.items():
        kind = "stdio" if server.command is not None else server.transport
        rows.append((one_line(name, _MAX_CHARACTERS), kind, "enabled" if server.enabled else "disabled"))
    rows += [(one_line(name, _MAX_CHARACTERS), "-", "invalid") for name in loaded.invalid_servers]
    none = f"there are no servers in {loaded.path or 'any file'}; {HOW_TO_ADD}"
    if loaded.unused_file and len(rows) > 1:
        announce(loaded.unused_file)
    show("\n".join(table(rows)) if len(rows) > 1 else loaded.unused_file or none)
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
        before = file.text.servers()
        unprotected = [glob for name in parsed.names for glob in file.text.remove_server(name)]
        stay = variables_left(file, before)
        copy = file.save(keeps_copy=True)
    show(f"removed {', '.join(parsed.names)} from {file.place.path}; the file as it was: {copy}")
    if stay:
        show(f"{file.dotenv} still has {', '.join(stay)}; delete what nothing else needs")
    if unprotected:
        names = ", ".join(unprotected)
        show(f"removed from privacy.servers as well: {names}; protect it again if you add the server again")
    return 0


def add_arguments_add(parser: argparse.ArgumentParser) -> None:
    parser.usage = "codemode-server add [options] NAME (URL | -- COMMAND [ARGUMENT …])"
    edited_config.add_arguments(parser)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "words", nargs="*", default=[], metavar="URL", help="its address, or behind `--` the command that starts it"
    )
    parser.add_argument("-t", "--transport", choices=("stdio", "http", "sse"))
    parser.add_argument("-e", "--env", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="'NAME: VALUE'", help="may be repeated")
    parser.add_argument("--cwd", metavar="FOLDER", help="where the command is started")
    parser.add_argument("-s", "--scope", help=argparse.SUPPRESS)  # `claude mcp add` has it; here there is one file


def run_add(parsed: argparse.Namespace) -> int:
    entry = _entry(parsed)
    with edited_config.locked(edited_config.located(parsed)) as file:
        storage = SecretDestination(file, parsed.secrets)
        made = planned(file, parsed.name, entry, storage)
        save(file, made, storage)
    edited_config.print_added(made, storage, file)
    args: Any = entry.get("args") or ()
    given = [None, *parsed.words, *parsed.command_line]
    if paths := [it for it in (entry.get("command"), *args) if it not in given]:
        show(f"made absolute, from this folder: {', '.join(map(str, paths))}")
    if not parsed.is_tested or made.to_set:
        return 0
    if code := edited_config.tested(file, [made.additions[0].name], parsed.wait):
        show(f"it stays in the file; codemode-server remove {parsed.name} takes it out")
    return code


def _entry(parsed: argparse.Namespace) -> dict[str, Plain]:
    if parsed.words and parsed.command_line:
        raise CodemodeError(f"only the name may stand before `--`; {' '.join(parsed.words)!r} does too")
    words = [*parsed.words, *parsed.command_line]
    if not words:
        raise CodemodeError(f"give an address, or the command behind `--`: add {parsed.name} -- npx -y PACKAGE")
    env = pairs(parsed.env, "=", "-e KEY=VALUE")
    headers = pairs(parsed.header, ":", "--header 'NAME: VALUE'")
    return entry_from(words, env, headers, transport=parsed.transport, cwd=parsed.cwd)
